import type { SectionFault } from "sluice-gateway/plugin";
import {
  readTokenPrices,
  type NetworkConfig,
  type PromptOptions,
  type RateConfig,
  type TokenPrices,
  type WorkerApi,
} from "sluice-gateway/services";
import { durationMs, fragmentPointer, pointerKey } from "sluice-gateway/internal/toolkit";
import { passable } from "./schema.ts";

/** A rate as written: `0.25`, `https://host/doc#/price`, or an object with these parts. */
type Rate =
  | string
  | {
      readonly url?: string;
      readonly pointer?: string;
      readonly every: string;
      readonly maxAge: string;
    };

/** An entry after validation, with defaults. Undefined members could not be read. */
interface Entry {
  readonly kind?: string;
  readonly url?: string;
  readonly origins: readonly string[];
  readonly status: { readonly url?: string; readonly every: string };
  readonly price_per_token_nano: string | Readonly<Record<string, string>>;
  readonly rate?: Rate;
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  readonly idleMs: number;
  readonly answerMs: number;
  readonly maxOutputTokens: number;
  /** A list, or a text with commas, which an environment variable can set. */
  readonly passes: PromptOptions["passes"] | string;
  readonly speaks: readonly WorkerApi[];
  readonly affinity: NetworkConfig["affinity"];
  readonly imageTokens: number;
  readonly contextTokens?: number;
}

export interface Options {
  readonly networks: Readonly<Record<string, Entry | null>>;
  readonly rate?: Rate;
}

const everyMinute = 60_000;
const oneDay = 86_400_000;
/** The prices if those of the file could not be read; that fault has already been reported. */
const free: TokenPrices = { pricePerTokenNano: "0" };

export function networkConfigs({ networks, rate }: Options): NetworkConfig[] {
  return Object.entries(networks).flatMap(([name, network]) => {
    if (network?.url === undefined) return [];
    const { kind = "openai", url, origins, status, headers } = network;
    const { connectMs, idleMs, answerMs, maxOutputTokens } = network;
    const { affinity, imageTokens, contextTokens } = network;
    const listed =
      typeof network.passes === "string" ? network.passes.split(/, */) : network.passes;
    const passes = passable.filter((part) => listed.includes(part));
    return {
      name,
      kind,
      url,
      origins,
      statusUrl: status.url,
      statusMs: durationMs(status.every) ?? everyMinute,
      prices: readTokenPrices(network.price_per_token_nano) ?? free,
      rate: rateConfig(network.rate ?? rate),
      headers,
      connectMs,
      idleMs,
      answerMs,
      maxOutputTokens,
      prompt: { passes, imageTokens, contextTokens },
      speaks: kind === "openai" ? ["embeddings", ...network.speaks] : network.speaks,
      affinity,
    };
  });
}

/** Returns undefined without a rate, or if a part of it could not be read; that fault has already been reported. */
function rateConfig(rate: Rate | undefined): RateConfig | undefined {
  if (rate === undefined) return undefined;
  if (typeof rate === "string") {
    const pointer = fragmentPointer(rate);
    if (pointer === undefined) return { kind: "fixed", usd: rate };
    const url = rate.slice(0, rate.indexOf("#/"));
    return { kind: "polled", url, pointer, everyMs: everyMinute, maxAgeMs: oneDay };
  }
  const { url, pointer, every, maxAge } = rate;
  if (url === undefined || pointer === undefined) return undefined;
  const everyMs = durationMs(every) ?? everyMinute;
  return { kind: "polled", url, pointer, everyMs, maxAgeMs: durationMs(maxAge) ?? oneDay };
}

/** A network with OpenAI's API has an http or https URL. Only the workers of such a network speak further APIs. */
export function kindFaults(options: Options): SectionFault[] {
  return networkConfigs(options).flatMap(({ name, kind, url, speaks }) => {
    const fault = (member: string, problem: string): SectionFault => ({
      pointer: `/networks/${pointerKey(name)}/${member}`,
      code: "SLUICE_NETWORK_KIND",
      message: `networks.${name} has kind ${kind}: ${problem}`,
    });
    if (kind !== "openai" && speaks.length > 0) {
      return fault("speaks", "its workers answer chat only, so it cannot have `speaks`");
    }
    return kind === "openai" && /^wss?:/i.test(url)
      ? fault("url", "expected an http or https URL, got a ws or wss URL")
      : [];
  });
}
