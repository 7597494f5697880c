/**
 * Finds the runtime that produced a block, and caches runtimes. Each runtime is fetched and parsed once, even if
 * several blocks need it concurrently. The eight most recently used runtimes are kept, by the name and version of their
 * specification. The chain is not part of the key, because a pool ejects nodes with another genesis.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { DecodeFailure, Ledger } from "sluice-gateway/services";
import { BoundedMap, isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { callNode, isHash, type NodeReply } from "./call-node.ts";
import { createRuntime, type Runtime } from "./runtime.ts";

const maxRuntimes = 8;
const maxParents = 1024;
/** Minimum time between two fetches of metadata that did not match a block. */
const refetchIntervalMs = 60_000;

/** The last id of metadata within this process. The threads that cache runtimes use the same ids. */
let lastId = 0;

export class LoadedRuntime {
  readonly id = ++lastId;
  readonly metadata: SharedArrayBuffer;
  /** Time of `clock.monotonic()` when the metadata was fetched or last confirmed. */
  checkedAt: number;
  #runtime: Runtime | undefined | null = null;

  constructor(metadata: SharedArrayBuffer, now: number) {
    this.metadata = metadata;
    this.checkedAt = now;
  }

  /** The runtime, parsed when it is first used on this thread. Undefined if the metadata is not supported. */
  get runtime(): Runtime | undefined {
    if (this.#runtime === null) this.#runtime = createRuntime(Buffer.from(this.metadata));
    return this.#runtime;
  }
}

export type FoundRuntime =
  | { readonly ok: true; readonly loaded: LoadedRuntime; readonly at: string }
  | DecodeFailure;

export class Runtimes {
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #loads = new BoundedMap<string, Promise<LoadedRuntime | DecodeFailure>>(maxRuntimes);
  readonly #parents = new BoundedMap<string, string>(maxParents);

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
  }

  /** Stores the parent of a block whose header is known, which saves a call. */
  rememberParent(blockHash: string, parentHash: string): void {
    this.#parents.set(blockHash, parentHash);
  }

  /**
   * Returns the runtime that produced a block, its events and its state. The version is read at the parent, because at
   * the hash of a block that upgrades the runtime, a node already answers the new version, although the old runtime
   * produced that block. If there is no parent (first block) or its state was pruned, the version is read at the block.
   */
  async of(blockHash: string, signal?: AbortSignal): Promise<FoundRuntime> {
    const parent = this.#parents.get(blockHash) ?? (await this.#parentOf(blockHash, signal));
    if (typeof parent !== "string") return parent;
    if (!/^0x0+$/.test(parent)) {
      const found = await this.at(parent, signal);
      if (found.ok || found.reason !== "unknownBlock") return found;
    }
    return this.at(blockHash, signal);
  }

  /**
   * Fetches the metadata again after it did not match a block, at most once per minute. (A development chain may change
   * its code and keep its version.) Undefined if it is unchanged, or was checked less than a minute ago.
   */
  async refetch({ loaded, at }: FoundRuntime & { ok: true }): Promise<LoadedRuntime | undefined> {
    const now = this.#clock.monotonic();
    if (now - loaded.checkedAt < refetchIntervalMs) return undefined;
    loaded.checkedAt = now;
    const fresh = await this.#fetch(at);
    if (!(fresh instanceof LoadedRuntime)) return undefined;
    if (Buffer.from(fresh.metadata).equals(Buffer.from(loaded.metadata))) return undefined;
    for (const [key, load] of this.#loads.entries()) {
      if ((await load) === loaded) this.#loads.set(key, Promise.resolve(fresh));
    }
    return fresh;
  }

  async #parentOf(blockHash: string, signal?: AbortSignal): Promise<string | DecodeFailure> {
    const reply = await callNode(this.#ledger, "chain_getHeader", `["${blockHash}"]`, signal);
    if (reply.kind !== "value") return failureOf(reply);
    const header = parseOrUndefined(reply.bytes.toString());
    if (!isObject(header) || !isHash(header.parentHash))
      return { ok: false, reason: "unreachable" };
    this.rememberParent(blockHash, header.parentHash);
    return header.parentHash;
  }

  /** Returns the runtime that a node reports at this hash, which is the one that produces the next block. */
  async at(hash: string, signal?: AbortSignal): Promise<FoundRuntime> {
    const reply = await callNode(this.#ledger, "state_getRuntimeVersion", `["${hash}"]`, signal);
    if (reply.kind !== "value") return failureOf(reply);
    const version = parseOrUndefined(reply.bytes.toString());
    if (!isObject(version)) return { ok: false, reason: "unreachable" };
    const { specName, specVersion } = version;
    if (typeof specName !== "string" || typeof specVersion !== "number") {
      return { ok: false, reason: "unreachable" };
    }
    const loaded = await this.#load(`${specName}/${specVersion}`, hash);
    return loaded instanceof LoadedRuntime ? { ok: true, loaded, at: hash } : loaded;
  }

  /** Does not take a signal, because all callers share the metadata. */
  #load(key: string, hash: string): Promise<LoadedRuntime | DecodeFailure> {
    const known = this.#loads.get(key);
    if (known !== undefined) return known;
    const load = this.#fetch(hash);
    this.#loads.set(key, load);
    void load.then((result) => {
      if (!(result instanceof LoadedRuntime) && this.#loads.peek(key) === load)
        this.#loads.delete(key);
    });
    return load;
  }

  async #fetch(hash: string): Promise<LoadedRuntime | DecodeFailure> {
    const reply = await callNode(this.#ledger, "state_getMetadata", `["${hash}"]`);
    if (reply.kind !== "value") return failureOf(reply);
    const digits = reply.bytes.length - 4;
    if (digits <= 0 || digits % 2 !== 0 || reply.bytes.toString("latin1", 0, 3) !== '"0x') {
      return { ok: false, reason: "undecodable" };
    }
    const metadata = new SharedArrayBuffer(digits / 2);
    const text = reply.bytes.toString("latin1", 3, 3 + digits);
    const written = Buffer.from(metadata).write(text, "hex");
    if (written !== digits / 2) return { ok: false, reason: "undecodable" };
    return new LoadedRuntime(metadata, this.#clock.monotonic());
  }
}

export function failureOf(reply: Exclude<NodeReply, { kind: "value" }>): DecodeFailure {
  return { ok: false, reason: reply.kind === "none" ? "unknownBlock" : reply.reason };
}
