/**
 * The price of one native token in USD: fixed, or read from a JSON document by a JSON pointer (decisions.md section 8).
 */
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { RateConfig } from "sluice-gateway/services";
import { decimalText } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import { PolledDocument } from "./polled-document.ts";

export interface TokenRate {
  /** The rate as a decimal. Undefined while it is unknown. */
  readonly usd: string | undefined;
  readonly firstReading: Promise<void>;
  close(): void;
}

interface TokenRateParts {
  /** Name of the network, for the metrics. */
  readonly name: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export function openTokenRate(config: RateConfig | undefined, parts: TokenRateParts): TokenRate {
  if (config?.kind !== "polled") {
    return { usd: config?.usd, firstReading: Promise.resolve(), close: () => undefined };
  }
  let usd: string | undefined;
  const path = pointerParts(config.pointer);
  const document = new PolledDocument<string>({
    ...parts,
    name: `${parts.name} rate`,
    url: config.url,
    everyMs: config.everyMs,
    read: (value) => positiveDecimal(valueAt(value, path)),
    changed: (value) => {
      usd = value;
    },
  });
  return {
    get usd() {
      return usd;
    },
    firstReading: document.firstReading,
    close: () => document.close(),
  };
}

/** Maximum rate that is accepted, in USD for one native token. */
const maxUsd = 1_000_000_000;

/** Rejects 0, which sources report if they have no price. The last value is more accurate in that case. */
function positiveDecimal(value: unknown): string | undefined {
  const text = decimalText(value);
  if (text === undefined || !/[1-9]/.test(text)) return undefined;
  return Number(text) <= maxUsd ? text : undefined;
}

function pointerParts(pointer: string): string[] {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const part of path) {
    if (Array.isArray(found) && /^(0|[1-9]\d*)$/.test(part)) found = found[Number(part)];
    else if (isObject(found) && Object.hasOwn(found, part)) found = found[part];
    else return undefined;
  }
  return found;
}
