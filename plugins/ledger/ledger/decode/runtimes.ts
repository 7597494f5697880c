/**
 * Which runtime a block was made with, and the runtimes in use. Every runtime is fetched and parsed once, however many
 * blocks ask for it at once; the eight used last are kept, by name and version of their specification. (A pool's nodes
 * share one genesis: it ejects the others. So the chain is not part of the key.)
 */
import type { Clock } from "../../../../src/services/clock.ts";
import type { DecodeFailure } from "../../../../src/services/decoder.ts";
import type { Ledger } from "../../../../src/services/ledger.ts";
import { ask, isHash, isRecord, parsed, type Asked } from "./ask.ts";
import { createRuntime, type Runtime } from "./runtime.ts";

const keptRuntimes = 8;
const keptParents = 1024;
/** How long metadata that did not fit a block is believed again before it is fetched anew. */
const doubtMs = 60_000;

/** Names metadata within this process, for the threads that keep it, too. */
let lastId = 0;

/** One runtime, whose metadata threads share. */
export class LoadedRuntime {
  readonly id = ++lastId;
  readonly metadata: SharedArrayBuffer;
  /** `clock.monotonic()` when it was fetched, or last seen to be the same. */
  checkedAt: number;
  #runtime: Runtime | undefined | null = null;

  constructor(metadata: SharedArrayBuffer, now: number) {
    this.metadata = metadata;
    this.checkedAt = now;
  }

  /** Parsed when first used on this thread; undefined: it is not metadata that is read here. */
  get runtime(): Runtime | undefined {
    if (this.#runtime === null) this.#runtime = createRuntime(Buffer.from(this.metadata));
    return this.#runtime;
  }
}

export type Found =
  | { readonly ok: true; readonly loaded: LoadedRuntime; readonly at: string }
  | DecodeFailure;

/** The runtimes of one chain. */
export class Runtimes {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  /** The one used last stands last. */
  readonly #loads = new Map<string, Promise<LoadedRuntime | DecodeFailure>>();
  readonly #parents = new Map<string, string>();

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /** Spares the question for a block whose header is at hand. */
  rememberParent(blockHash: string, parentHash: string): void {
    const [oldest] = this.#parents.keys();
    if (this.#parents.size >= keptParents && oldest !== undefined) this.#parents.delete(oldest);
    this.#parents.set(blockHash, parentHash);
  }

  /**
   * The runtime that made a block, its events and its state. At the hash of a block that upgrades the runtime a node
   * already answers the new one, but that block was made with the old one: so the question goes to the parent. The
   * first block has none, and the state of a parent may be gone: then the block's own.
   */
  async of(blockHash: string, signal?: AbortSignal): Promise<Found> {
    const parent = this.#parents.get(blockHash) ?? (await this.#parentOf(blockHash, signal));
    if (typeof parent !== "string") return parent;
    if (!/^0x0+$/.test(parent)) {
      const found = await this.at(parent, signal);
      if (found.ok || found.reason !== "unknownBlock") return found;
    }
    return this.at(blockHash, signal);
  }

  /**
   * Fetches again what did not fit a block, at most once a minute: a development chain changes its code and keeps its
   * version. Undefined: it is the same, or was looked at just now.
   */
  async again({ loaded, at }: Found & { ok: true }): Promise<LoadedRuntime | undefined> {
    const now = this.#clock.monotonic();
    if (now - loaded.checkedAt < doubtMs) return undefined;
    loaded.checkedAt = now;
    const fresh = await this.#fetch(at);
    if (!(fresh instanceof LoadedRuntime)) return undefined;
    if (Buffer.from(fresh.metadata).equals(Buffer.from(loaded.metadata))) return undefined;
    for (const [key, load] of this.#loads) {
      if ((await load) === loaded) this.#loads.set(key, Promise.resolve(fresh));
    }
    return fresh;
  }

  async #parentOf(blockHash: string, signal?: AbortSignal): Promise<string | DecodeFailure> {
    const asked = await ask(this.#ledger, "chain_getHeader", `["${blockHash}"]`, signal);
    if (asked.kind !== "value") return failureOf(asked);
    const header = parsed(asked.bytes);
    if (!isRecord(header) || !isHash(header.parentHash))
      return { ok: false, reason: "unreachable" };
    this.rememberParent(blockHash, header.parentHash);
    return header.parentHash;
  }

  /** The runtime that a node names at this hash: the one that makes the next block. */
  async at(hash: string, signal?: AbortSignal): Promise<Found> {
    const asked = await ask(this.#ledger, "state_getRuntimeVersion", `["${hash}"]`, signal);
    if (asked.kind !== "value") return failureOf(asked);
    const version = parsed(asked.bytes);
    if (!isRecord(version)) return { ok: false, reason: "unreachable" };
    const { specName, specVersion } = version;
    if (typeof specName !== "string" || typeof specVersion !== "number") {
      return { ok: false, reason: "unreachable" };
    }
    const loaded = await this.#load(`${specName}/${specVersion}`, hash);
    return loaded instanceof LoadedRuntime ? { ok: true, loaded, at: hash } : loaded;
  }

  /** No caller's signal: the metadata is for all of them. */
  #load(key: string, hash: string): Promise<LoadedRuntime | DecodeFailure> {
    const known = this.#loads.get(key);
    const load = known ?? this.#fetch(hash);
    this.#loads.delete(key);
    this.#loads.set(key, load);
    if (known !== undefined) return known;
    const [oldest] = this.#loads.keys();
    if (this.#loads.size > keptRuntimes && oldest !== undefined) this.#loads.delete(oldest);
    void load.then((result) => {
      if (!(result instanceof LoadedRuntime) && this.#loads.get(key) === load)
        this.#loads.delete(key);
    });
    return load;
  }

  async #fetch(hash: string): Promise<LoadedRuntime | DecodeFailure> {
    const asked = await ask(this.#ledger, "state_getMetadata", `["${hash}"]`);
    if (asked.kind !== "value") return failureOf(asked);
    const digits = asked.bytes.length - 4;
    if (digits <= 0 || digits % 2 !== 0 || asked.bytes.toString("latin1", 0, 3) !== '"0x') {
      return { ok: false, reason: "undecodable" };
    }
    const metadata = new SharedArrayBuffer(digits / 2);
    const text = asked.bytes.toString("latin1", 3, 3 + digits);
    const written = Buffer.from(metadata).write(text, "hex");
    if (written !== digits / 2) return { ok: false, reason: "undecodable" };
    return new LoadedRuntime(metadata, this.#clock.monotonic());
  }
}

/** What a question that has no answer means for whoever asked about a block. */
export function failureOf(asked: Exclude<Asked, { kind: "value" }>): DecodeFailure {
  return { ok: false, reason: asked.kind === "none" ? "unknownBlock" : asked.reason };
}
