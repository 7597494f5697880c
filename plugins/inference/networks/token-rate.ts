/** The price of one native token in USD (decisions.md section 8). */
import { createHash } from "node:crypto";
import type { Clock, Gauge, Log, Metrics, PluginStorage } from "sluice-gateway/plugin";
import type { RateConfig } from "sluice-gateway/services";
import { decimalText } from "sluice-gateway/services";
import { isObject, parseJson } from "sluice-gateway/internal/toolkit";
import { PolledDocument } from "./polled-document.ts";

export interface TokenRate {
  /** The rate as a decimal. Undefined if none is configured, or while it is not known. */
  readonly usd: string | undefined;
  /** False while a rate is configured and not known. Answers would be free by mistake. */
  readonly isKnown: boolean;
  readonly firstReading: Promise<void>;
  close(): void;
}

interface TokenRateDeps {
  readonly name: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Keeps the last value across restarts. */
  readonly storage: () => PluginStorage;
}

export function openTokenRate(config: RateConfig | undefined, deps: TokenRateDeps): TokenRate {
  if (config?.kind === "polled") return new PolledRate(config, deps);
  const firstReading = Promise.resolve();
  return { usd: config?.usd, isKnown: true, firstReading, close: () => undefined };
}

/** The value is stored again after this time, so that a restart knows how old it is. */
const storeEveryMs = 600_000;

/** `at`: milliseconds since 1970. */
interface Reading {
  readonly usd: string;
  readonly at: number;
}

class PolledRate implements TokenRate {
  readonly firstReading: Promise<void>;
  readonly #config: RateConfig & { readonly kind: "polled" };
  readonly #deps: TokenRateDeps;
  readonly #document: PolledDocument<string>;
  readonly #known: Gauge;
  /** Key in the storage: a hash, because the address may contain secrets and be long. */
  readonly #key: string;
  #last: Reading | undefined;
  #stored: Reading | undefined;
  #wasKnown = true;

  constructor(config: RateConfig & { readonly kind: "polled" }, deps: TokenRateDeps) {
    this.#config = config;
    this.#deps = deps;
    this.#key = keyOf(config);
    const path = pointerParts(config.pointer);
    this.#known = deps.metrics
      .gauge(
        "sluice_inference_rate_known",
        "1 if the rate of the network is known, 0 if answers are refused because it could not be read for too long.",
        ["network"],
        { isSameInThreads: true },
      )
      .with({ network: deps.name });
    const stored = this.#load();
    this.#document = new PolledDocument<string>({
      ...deps,
      name: `${deps.name} rate`,
      url: config.url,
      everyMs: config.everyMs,
      read: (value) => positiveDecimal(valueAt(value, path)),
      changed: (usd) => {
        this.#last = { usd, at: deps.clock.now() };
        this.#store(this.#last);
        this.#show();
      },
      // Nothing is known about the stored value before it has been loaded.
      failed: () => void stored.then(() => this.#show()),
    });
    this.firstReading = Promise.all([stored, this.#document.firstReading]).then(() => {});
  }

  get usd(): string | undefined {
    if (this.#last === undefined) return undefined;
    const ageMs = this.#deps.clock.now() - this.#last.at;
    return ageMs <= this.#config.maxAgeMs ? this.#last.usd : undefined;
  }

  get isKnown(): boolean {
    return this.usd !== undefined;
  }

  close(): void {
    this.#document.close();
    this.#known.remove();
  }

  #show(): void {
    const { isKnown } = this;
    this.#known.set(isKnown ? 1 : 0);
    if (isKnown === this.#wasKnown) return;
    this.#wasKnown = isKnown;
    const { log, name } = this.#deps;
    const about = { network: name };
    if (isKnown) log.info(about, "the rate of the network is known again");
    else log.error(about, "the network is not used: its rate is unknown, or too old");
  }

  /** Never rejects. */
  async #load(): Promise<void> {
    const { clock, log, name, storage } = this.#deps;
    try {
      const reading = readingOf((await storage().get(this.#key)) ?? "");
      if (reading === undefined) return;
      // A clock that ran ahead must not make the value last longer than from now on.
      this.#last ??= { usd: reading.usd, at: Math.min(reading.at, clock.now()) };
    } catch (error) {
      log.warn({ err: error, network: name }, "the last rate could not be read from the storage");
    }
  }

  #store(reading: Reading): void {
    const before = this.#stored;
    if (before?.usd === reading.usd && reading.at - before.at < storeEveryMs) return;
    this.#stored = reading;
    const { log, name, storage } = this.#deps;
    storage()
      .set(this.#key, JSON.stringify(reading))
      .catch((error: unknown) => {
        log.warn({ err: error, network: name }, "the rate could not be stored for the next start");
      });
  }
}

function keyOf({ url, pointer }: { readonly url: string; readonly pointer: string }): string {
  return `rate ${createHash("sha256").update(`${url}#${pointer}`).digest("hex")}`;
}

function readingOf(text: string): Reading | undefined {
  if (text === "") return undefined;
  const value = parseJson(text);
  if (!isObject(value) || typeof value["at"] !== "number") return undefined;
  const usd = positiveDecimal(value["usd"]);
  return usd === undefined ? undefined : { usd, at: value["at"] };
}

const maxUsd = 1_000_000_000;

/** 0 is rejected: sources report it if they have no price, and the last value is more accurate then. */
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
