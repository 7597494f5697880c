/** The networks of pipeline.yaml, with the rate that holds for each. */
import type { NetworkConfig, RateConfig } from "./config.ts";
import { durationMs, fragmentPointer } from "./formats.ts";

/** A rate as it may be written: `0.25`, `https://host/doc#/price`, or its parts. */
export type RateShape =
  | string
  | { readonly url?: string; readonly pointer?: string; readonly every: string };

export interface NetworkShape {
  readonly kind?: "openai" | "enclave";
  readonly url?: string;
  readonly status: { readonly url?: string; readonly every: string };
  readonly price_per_token_nano: string;
  readonly rate?: RateShape;
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  readonly idleMs: number;
  readonly answerMs: number;
  readonly maxOutputTokens: number;
}

const everyMinute = 60_000;

/** Those that have a url, in the order written. `rate`: the file's own. */
export function shapeNetworks(
  networks: Readonly<Record<string, NetworkShape | null>>,
  rate: RateShape | undefined,
): NetworkConfig[] {
  const configured: NetworkConfig[] = [];
  for (const [name, network] of Object.entries(networks)) {
    if (network?.url === undefined) continue;
    const { url, status, price_per_token_nano: pricePerTokenNano, headers } = network;
    const { connectMs, idleMs, answerMs, maxOutputTokens } = network;
    configured.push({
      name,
      url,
      statusUrl: status.url,
      statusMs: durationMs(status.every) ?? everyMinute,
      pricePerTokenNano,
      rate: shapeRate(network.rate ?? rate),
      headers,
      connectMs,
      idleMs,
      answerMs,
      maxOutputTokens,
    });
  }
  return configured;
}

/** Undefined also for one whose parts could not be read: its fault is reported. */
function shapeRate(shape: RateShape | undefined): RateConfig | undefined {
  if (shape === undefined) return undefined;
  if (typeof shape === "string") {
    const pointer = fragmentPointer(shape);
    if (pointer === undefined) return { kind: "fixed", usd: shape };
    const url = shape.slice(0, shape.indexOf("#/"));
    return { kind: "polled", url, pointer, everyMs: everyMinute };
  }
  const { url, pointer, every } = shape;
  if (url === undefined || pointer === undefined) return undefined;
  return { kind: "polled", url, pointer, everyMs: durationMs(every) ?? everyMinute };
}
