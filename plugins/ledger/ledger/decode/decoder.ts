import type { Clock, ComputeThreads } from "sluice-gateway/plugin";
import type {
  CallSummary,
  DecodedJson,
  DecodeFailure,
  Decoder,
  Ledger,
} from "sluice-gateway/services";
import { findMember, malformed, skipSpace, skipValue } from "sluice-gateway/internal/http";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { accountJson, accountKey } from "./account.ts";
import { callNode, isHash, type NodeReply } from "./call-node.ts";
import { failureOf, Runtimes } from "./runtimes.ts";
import { accountIdOf } from "./ss58.ts";
import { storagePrefix } from "./storage-key.ts";
import { undecodable, DecodeRunner } from "./decode-runner.ts";
import { readExtrinsic } from "./extrinsics.ts";
import type { Runtime } from "./runtime.ts";
import { ValueReader } from "./value.ts";

/** The default prefix of sp_core, "generic Substrate". */
const defaultPrefix = 42;

const eventsKey = `0x${storagePrefix("System", "Events").toString("hex")}`;

interface DecoderDeps {
  readonly ledger: Ledger;
  readonly compute: ComputeThreads;
  readonly clock: Clock;
}

/** Does not close the ledger or the compute pool. */
export function createDecoder({ ledger, compute, clock }: DecoderDeps): Decoder {
  const chain = new ChainDecoder(ledger, compute, clock);
  return {
    extrinsics: (block, blockHash, options) => chain.extrinsics(block, blockHash, options?.signal),
    events: (blockHash, options) => chain.events(blockHash, options),
    account: (id, blockHash, options) => chain.account(id, blockHash, options),
    accountId: accountIdOf,
    summary: (extrinsic, options) => chain.summary(extrinsic, options?.signal),
  };
}

type ReadOptions = NonNullable<Parameters<Decoder["events"]>[1]>;

class ChainDecoder {
  readonly #ledger: Ledger;
  readonly #runtimes: Runtimes;
  readonly #runner: DecodeRunner;

  constructor(ledger: Ledger, compute: ComputeThreads, clock: Clock) {
    this.#ledger = ledger;
    this.#runtimes = new Runtimes(ledger, clock);
    this.#runner = new DecodeRunner(compute, this.#runtimes);
  }

  async extrinsics(block: Buffer, blockHash: string, signal?: AbortSignal): Promise<DecodedJson> {
    const split = splitBlock(block);
    if (split === undefined) return undecodable;
    this.#runtimes.rememberParent(blockHash, split.parentHash);
    const found = await this.#runtimes.of(blockHash, signal);
    return this.#runner.decode(found, "extrinsics", split.extrinsics, signal);
  }

  async events(blockHash: string, options: ReadOptions = {}): Promise<DecodedJson> {
    const { signal } = options;
    const [found, stored] = await Promise.all([
      this.#runtimes.of(blockHash, signal),
      this.#stored(eventsKey, blockHash, options),
    ]);
    if (!found.ok) return found;
    return "reason" in stored ? stored : this.#runner.decode(found, "events", stored, signal);
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
    signal?: AbortSignal,
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

interface Range {
  readonly start: number;
  readonly end: number;
}

interface SplitBlock {
  readonly parentHash: string;
  readonly extrinsics: Buffer;
}

/** Finds the parts of a block. Returns undefined if `bytes` is not `{ block: { header: { parentHash, … }, extrinsics: […] }, … }`. */
function splitBlock(bytes: Buffer): SplitBlock | undefined {
  const whole = { start: 0, end: bytes.length };
  const block = member(bytes, whole, "block");
  const header = block === undefined ? undefined : member(bytes, block, "header");
  const parent = header === undefined ? undefined : member(bytes, header, "parentHash");
  const extrinsics = block === undefined ? undefined : member(bytes, block, "extrinsics");
  if (parent === undefined || extrinsics === undefined) return undefined;
  const parentHash = bytes.toString("latin1", parent.start + 1, parent.end - 1);
  if (!/^0x[\da-f]{64}$/i.test(parentHash)) return undefined;
  return { parentHash, extrinsics: bytes.subarray(extrinsics.start, extrinsics.end) };
}

function member(bytes: Buffer, { start, end }: Range, name: string): Range | undefined {
  const value = findMember(bytes, skipSpace(bytes, start, end), end, name);
  const valueEnd = value === malformed ? malformed : skipValue(bytes, value, end, 0, "trusted");
  return valueEnd === malformed ? undefined : { start: value, end: valueEnd };
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
