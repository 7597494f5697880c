/** USD of one native token: fixed, or read from a JSON document by a pointer (decisions.md section 8). */
import type { RateConfig } from "../../../src/config/config.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { Metrics } from "../../../src/services/metrics.ts";
import { decimalText } from "../../../src/decimal.ts";
import { PolledDocument } from "./polled-document.ts";
import { isObject } from "./status-document.ts";

export interface TokenRate {
  /** A decimal; undefined while none is known. */
  readonly usd: string | undefined;
  readonly firstReading: Promise<void>;
  close(): void;
}

interface TokenRateParts {
  /** Whose rate it is, for the metrics. */
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
    read: (value) => positiveDecimal(at(value, path)),
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

/** USD of one native token that are believed. */
const maxUsd = 1_000_000_000;

/** A price of 0 is what a source says that has none: what it said last is nearer to the truth. */
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

function at(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const part of path) {
    if (Array.isArray(found) && /^(0|[1-9]\d*)$/.test(part)) found = found[Number(part)];
    else if (isObject(found) && Object.hasOwn(found, part)) found = found[part];
    else return undefined;
  }
  return found;
}
