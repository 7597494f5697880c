/** The service that plugins call `Decoder`: asks the node, finds the runtime, and has its bytes decoded. */
import type { ComputeThreads } from "../../../../src/services/compute.ts";
import type { Clock } from "../../../../src/services/clock.ts";
import type {
  CallSummary,
  DecodedJson,
  DecodeFailure,
  Decoder,
} from "../../../../src/services/decoder.ts";
import type { Ledger } from "../../../../src/services/ledger.ts";
import { accountJson, accountKey } from "./account.ts";
import { ask, isHash, parsed, type Asked } from "./ask.ts";
import { splitBlock } from "./block.ts";
import { failureOf, Runtimes } from "./runtimes.ts";
import { accountIdOf } from "./ss58.ts";
import { storagePrefix } from "./storage-key.ts";
import { summarise } from "./summary.ts";
import { undecodable, Work } from "./work.ts";

const eventsKey = `0x${storagePrefix("System", "Events").toString("hex")}`;

interface DecoderParts {
  readonly ledger: Ledger;
  readonly compute: ComputeThreads;
  readonly clock: Clock;
}

/** Owns nothing: the ledger and the pool are closed by whoever opened them. */
export function createDecoder({ ledger, compute, clock }: DecoderParts): Decoder {
  const chain = new ChainDecoder(ledger, compute, clock);
  return {
    extrinsics: (block, blockHash, options) => chain.extrinsics(block, blockHash, options?.signal),
    events: (blockHash, options) => chain.events(blockHash, options?.signal),
    account: (id, blockHash, options) => chain.account(id, blockHash, options?.signal),
    accountId: accountIdOf,
    summary: (extrinsic, options) => chain.summary(extrinsic, options?.signal),
  };
}

class ChainDecoder {
  readonly #ledger: Ledger;
  readonly #runtimes: Runtimes;
  readonly #work: Work;

  constructor(ledger: Ledger, compute: ComputeThreads, clock: Clock) {
    this.#ledger = ledger;
    this.#runtimes = new Runtimes(ledger, clock);
    this.#work = new Work(compute, this.#runtimes);
  }

  async extrinsics(block: Buffer, blockHash: string, signal?: AbortSignal): Promise<DecodedJson> {
    const split = splitBlock(block);
    if (split === undefined) return undecodable;
    this.#runtimes.rememberParent(blockHash, split.parentHash);
    const found = await this.#runtimes.of(blockHash, signal);
    return this.#work.decode(found, "extrinsics", split.extrinsics, signal);
  }

  async events(blockHash: string, signal?: AbortSignal): Promise<DecodedJson> {
    const [found, stored] = await Promise.all([
      this.#runtimes.of(blockHash, signal),
      this.#stored(eventsKey, blockHash, signal),
    ]);
    if (!found.ok) return found;
    return "reason" in stored ? stored : this.#work.decode(found, "events", stored, signal);
  }

  async account(
    id: Uint8Array,
    blockHash: string | undefined,
    signal?: AbortSignal,
  ): Promise<DecodedJson> {
    const hash = blockHash ?? (await this.#bestBlock(signal));
    if (typeof hash !== "string") return hash;
    const found = await this.#runtimes.of(hash, signal);
    if (!found.ok) return found;
    const { runtime } = found.loaded;
    if (runtime === undefined) return undecodable;
    const key = accountKey(runtime, id);
    if (key === undefined) return { ok: false, reason: "wrongAccount" };
    const stored = key === null ? nothing : await this.#stored(key, hash, signal);
    if ("reason" in stored) return stored;
    const json = accountJson(runtime, hexOf(stored));
    return json === undefined ? undecodable : { ok: true, json };
  }

  async summary(
    extrinsic: Uint8Array,
    signal?: AbortSignal,
  ): Promise<{ readonly ok: true; readonly summary: CallSummary } | DecodeFailure> {
    const hash = await this.#bestBlock(signal);
    if (typeof hash !== "string") return hash;
    // Not the parent's: it is for the next block.
    const found = await this.#runtimes.at(hash, signal);
    if (!found.ok) return found;
    const { runtime } = found.loaded;
    const bytes = Buffer.from(extrinsic.buffer, extrinsic.byteOffset, extrinsic.byteLength);
    const summary = runtime && summarise(runtime, bytes);
    return summary === undefined ? undecodable : { ok: true, summary };
  }

  /** The block of a read without one: every question that follows is about the same state. */
  async #bestBlock(signal?: AbortSignal): Promise<string | DecodeFailure> {
    const asked = await ask(this.#ledger, "chain_getBlockHash", "[]", signal);
    if (asked.kind === "failed") return { ok: false, reason: asked.reason };
    const hash = asked.kind === "value" ? parsed(asked.bytes) : undefined;
    return isHash(hash) ? hash : { ok: false, reason: "unreachable" };
  }

  /** The JSON of a storage value. A node's error means that it does not have that state. */
  async #stored(key: string, hash: string, signal?: AbortSignal): Promise<Buffer | DecodeFailure> {
    const asked: Asked = await ask(
      this.#ledger,
      "state_getStorage",
      `["${key}","${hash}"]`,
      signal,
    );
    if (asked.kind === "value") return asked.bytes;
    return asked.kind === "none" && !asked.error ? nothing : failureOf(asked);
  }
}

const nothing = Buffer.from("null");

/** Of a JSON string or null. */
function hexOf(json: Buffer): string | undefined {
  return json === nothing ? undefined : json.toString("latin1", 1, json.length - 1);
}
