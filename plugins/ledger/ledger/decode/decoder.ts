import type { Clock, ComputeThreads } from "sluice-gateway/plugin";
import type {
  CallSummary,
  DecodedJson,
  DecodeFailure,
  Decoder,
  Ledger,
} from "sluice-gateway/services";
import { threadModule } from "sluice-gateway/internal/package-files";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { memberAt, memberBytes } from "../json-part.ts";
import { accountJson, accountKey } from "./account.ts";
import { readExtrinsic, unknownCall } from "./block-parts.ts";
import { callNode, isHash, type NodeReply } from "./call-node.ts";
import { decodeText, type DecodeJob, type JobKind } from "./decode-job.ts";
import type { Runtime } from "./runtime.ts";
import { failureOf, Runtimes, type FoundRuntime, type LoadedRuntime } from "./runtimes.ts";
import { accountIdOf } from "./ss58.ts";
import { storagePrefix } from "./storage-key.ts";
import { ValueReader } from "./value.ts";

/** The default prefix of sp_core, "generic Substrate". */
const defaultPrefix = 42;

const eventsKey = `0x${storagePrefix("System", "Events").toString("hex")}`;

/**
 * Minimum size of the node's JSON for which a thread is used. Passing a larger text to a thread costs the event loop
 * less than decoding it. According to bench/micro/decode.ts, both cost about 0.7 ms at 256 KiB.
 */
const poolFromBytes = 256 * 1024;

const jobModule = threadModule("plugins/ledger/ledger/decode/decode-job");

const undecodable: DecodeFailure = { ok: false, reason: "undecodable" };

type ReadOptions = NonNullable<Parameters<Decoder["events"]>[1]>;

interface DecoderDeps {
  readonly ledger: Ledger;
  readonly compute: ComputeThreads;
  readonly clock: Clock;
}

/** Decodes answers of a node, which are borrowed. Does not close the ledger or the compute pool. */
export class ChainDecoder implements Decoder {
  readonly #ledger: Ledger;
  readonly #compute: ComputeThreads;
  readonly #runtimes: Runtimes;
  readonly accountId = accountIdOf;

  constructor({ ledger, compute, clock }: DecoderDeps) {
    this.#ledger = ledger;
    this.#compute = compute;
    this.#runtimes = new Runtimes(ledger, clock);
  }

  async extrinsics(
    block: Buffer,
    blockHash: string,
    { signal }: ReadOptions = {},
  ): Promise<DecodedJson> {
    const split = splitBlock(block);
    if (split === undefined) return undecodable;
    this.#runtimes.rememberParent(blockHash, split.parentHash);
    const found = await this.#runtimes.of(blockHash, signal);
    return this.#decode(found, "extrinsics", split.extrinsics, signal);
  }

  async events(blockHash: string, options: ReadOptions = {}): Promise<DecodedJson> {
    const { signal } = options;
    const [found, stored] = await Promise.all([
      this.#runtimes.of(blockHash, signal),
      this.#stored(eventsKey, blockHash, options),
    ]);
    if (!found.ok) return found;
    return "reason" in stored ? stored : this.#decode(found, "events", stored, signal);
  }

  async account(
    id: Uint8Array,
    blockHash: string | undefined,
    options: ReadOptions = {},
  ): Promise<DecodedJson> {
    const { signal } = options;
    const hash = blockHash ?? (await this.#bestBlock(options));
    if (typeof hash !== "string") return hash;
    const found = await this.#runtimes.of(hash, signal);
    if (!found.ok) return found;
    const { runtime } = found.loaded;
    if (runtime === undefined) return undecodable;
    const key = accountKey(runtime, id);
    if (key === undefined) return { ok: false, reason: "wrongAccount" };
    const stored = key === null ? nothing : await this.#stored(key, hash, options);
    if ("reason" in stored) return stored;
    const json = accountJson(runtime, hexOf(stored));
    return json === undefined ? undecodable : { ok: true, json };
  }

  async summary(
    extrinsic: Uint8Array,
    { signal }: ReadOptions = {},
  ): Promise<{ readonly ok: true; readonly summary: CallSummary } | DecodeFailure> {
    const hash = await this.#bestBlock({ signal });
    if (typeof hash !== "string") return hash;
    // Uses the runtime of the next block, not that of the parent.
    const found = await this.#runtimes.at(hash, signal);
    if (!found.ok) return found;
    const { runtime } = found.loaded;
    const bytes = Buffer.from(extrinsic.buffer, extrinsic.byteOffset, extrinsic.byteLength);
    const summary = runtime && summarise(runtime, bytes);
    return summary === undefined ? undecodable : { ok: true, summary };
  }

  /** Repeats the decoding if the runtime may have been the wrong one. */
  async #decode(
    found: FoundRuntime,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> {
    if (!found.ok) return found;
    const first = await this.#decodeWith(found.loaded, kind, body, signal);
    if (!mightDecodeMore(first)) return first;
    const fresh = await this.#runtimes.refetch(found);
    return fresh === undefined ? first : this.#decodeWith(fresh, kind, body, signal);
  }

  /** Decodes on the event loop or in a thread. */
  async #decodeWith(
    loaded: LoadedRuntime,
    kind: JobKind,
    body: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<DecodedJson> {
    if (body.length < poolFromBytes) {
      const { runtime } = loaded;
      const json = runtime && decodeText(runtime, kind, body.toString("latin1"));
      return json === undefined ? undecodable : { ok: true, json };
    }
    // A copy, because its memory is transferred to the thread.
    const moved = new Uint8Array(body);
    const { id, metadata } = loaded;
    const input: DecodeJob = { kind, runtime: id, metadata, body: moved };
    const transfer = [moved.buffer];
    const done = await this.#compute.run({ module: jobModule, input, transfer, signal });
    if (!done.ok)
      return done.reason === "crashed" ? undecodable : { ok: false, reason: done.reason };
    if (done.bytes === undefined) return undecodable;
    const { buffer, byteOffset, byteLength } = done.bytes;
    return { ok: true, json: Buffer.from(buffer, byteOffset, byteLength).toString("latin1") };
  }

  /** Returns the best block, for a read without a block, so that all its calls read the same state. */
  async #bestBlock({ signal, ledger }: ReadOptions): Promise<string | DecodeFailure> {
    const reply = await callNode(ledger ?? this.#ledger, "chain_getBlockHash", "[]", signal);
    if (reply.kind === "failed") return { ok: false, reason: reply.reason };
    const hash = reply.kind === "value" ? parseOrUndefined(reply.bytes.toString()) : undefined;
    return isHash(hash) ? hash : { ok: false, reason: "unreachable" };
  }

  /** An error of the node means that it does not have that state. */
  async #stored(
    key: string,
    hash: string,
    { signal, ledger }: ReadOptions,
  ): Promise<Buffer | DecodeFailure> {
    const reply: NodeReply = await callNode(
      ledger ?? this.#ledger,
      "state_getStorage",
      `["${key}","${hash}"]`,
      signal,
    );
    if (reply.kind === "value") return reply.bytes;
    return reply.kind === "none" && !reply.error ? nothing : failureOf(reply);
  }
}

const nothing = Buffer.from("null");

/** Returns the content of a JSON string. Undefined for null. */
function hexOf(json: Buffer): string | undefined {
  return json === nothing ? undefined : json.toString("latin1", 1, json.length - 1);
}

interface SplitBlock {
  readonly parentHash: string;
  readonly extrinsics: Buffer;
}

/** Finds the parts of a block. Returns undefined if `bytes` is not `{ block: { header: { parentHash, … }, extrinsics: […] }, … }`. */
function splitBlock(bytes: Buffer): SplitBlock | undefined {
  const parentHash = memberAt(bytes, ["block", "header", "parentHash"])?.slice(1, -1);
  const extrinsics = memberBytes(bytes, ["block", "extrinsics"]);
  return isHash(parentHash) && extrinsics !== undefined ? { parentHash, extrinsics } : undefined;
}

function mightDecodeMore(decoded: DecodedJson): boolean {
  return decoded.ok ? decoded.json.includes(unknownCall) : decoded.reason === "undecodable";
}

export function summarise(runtime: Runtime, bytes: Buffer): CallSummary | undefined {
  const found = readExtrinsic(runtime, bytes);
  if (found?.entry.pallet === undefined) return undefined;
  const prefix = ss58Prefix(runtime);
  const { entry, argsAt, addressAt } = found;
  return {
    pallet: found.entry.pallet.name,
    method: entry.variant.name,
    signer: addressAt === undefined ? null : signerOf(runtime, bytes, addressAt, prefix),
    args: new ValueReader(runtime, bytes, argsAt, prefix).named(entry.variant.fields, 0),
  };
}

/** Returns the address, or the JSON of another form of signer (an index, raw bytes). */
function signerOf(runtime: Runtime, bytes: Buffer, at: number, prefix: number): string {
  const { address } = runtime.metadata;
  if (address === undefined) return "…";
  const signer = new ValueReader(runtime, bytes, at, prefix).read(address);
  if (typeof signer === "string") return signer;
  // MultiAddress, which almost every chain uses.
  if (isObject(signer) && typeof signer["Id"] === "string") return signer["Id"];
  return JSON.stringify(signer);
}

function ss58Prefix({ metadata }: Runtime): number {
  const system = metadata.pallets.find((pallet) => pallet.name === "System");
  const value = system?.constants.find((constant) => constant.name === "SS58Prefix")?.value;
  if (value?.length === 1) return value.readUInt8(0);
  return value?.length === 2 ? value.readUInt16LE(0) & 0x3fff : defaultPrefix;
}
