/** The decoders of the service `ledger`. Implemented in plugins/ledger/ledger/decode. */

import type { LedgerCalls } from "./ledger-calls.ts";

/** The reason never contains text from a node. */
export interface DecodeFailure {
  readonly ok: false;
  /**
   * - `unknownBlock`: no node knows the block, or none has its state any more.
   * - `undecodable`: the bytes do not match the metadata of the runtime.
   * - `wrongAccount`: account ids of this chain have a different length.
   * - `unreachable`: no node answered, or the answer did not fit the method.
   * - `timeout`, `busy`: the thread pool took too long, or its queue is full.
   * - `aborted`: the signal aborted.
   */
  readonly reason:
    | "unknownBlock"
    | "undecodable"
    | "wrongAccount"
    | "unreachable"
    | "timeout"
    | "busy"
    | "aborted";
}
export type DecodedJson = { readonly ok: true; readonly json: string } | DecodeFailure;

/** Integers are decimal strings, bytes hex, accounts addresses, and enums `{ Variant: … }`. */
export interface CallSummary {
  /** Spelled as in the metadata. */
  readonly pallet: string;
  readonly method: string;
  /** Address of the signer. Null for a bare or general extrinsic. */
  readonly signer: string | null;
  /** Arguments by name, as JSON values. Long values are shortened; `…` marks the place. */
  readonly args: Readonly<Record<string, unknown>>;
}

interface DecodeOptions {
  /** Aborted when the caller no longer needs the result. Work that other callers share continues. */
  readonly signal?: AbortSignal | undefined;
  /** Answers the calls that read the block. Default: the pool. */
  readonly ledger?: LedgerCalls | undefined;
}

/**
 * Decodes a node's answers by the metadata of its runtime, which is fetched once per runtime version. No method
 * rejects. A block hash is `0x` and 64 hex digits; the caller must have checked that.
 */
export interface Decoder {
  /**
   * Decodes the extrinsics of a block to a JSON array of `{ index, pallet, method, args, isSigned, raw }`. `block`: the
   * unchanged bytes of the node's `chain_getBlock` result; they are borrowed. An extrinsic that cannot be decoded has
   * the pallet and method `unknown` and does not affect the others.
   */
  extrinsics(block: Buffer, blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /** Decodes the events of a block to a JSON array of `{ index, phase, pallet, event, data }`. */
  events(blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /**
   * Reads an account as `{ nonce, consumers, providers, sufficients, data: { free, reserved, miscFrozen, feeFrozen }
   * }`. Fields are zero if the account does not exist or the chain does not have them. If `blockHash` is undefined, the
   * best block is read.
   */
  account(
    accountId: Uint8Array,
    blockHash: string | undefined,
    options?: DecodeOptions,
  ): Promise<DecodedJson>;
  /**
   * Returns the account id (32 or 20 bytes) of an SS58 address with any prefix, whose checksum is verified, or of `0x`
   * and 64 or 40 hex digits. Undefined for anything else.
   */
  accountId(address: string): Uint8Array | undefined;
  /** Describes an extrinsic (with its length prefix) by the runtime of the best block. */
  summary(
    extrinsic: Uint8Array,
    options?: DecodeOptions,
  ): Promise<{ readonly ok: true; readonly summary: CallSummary } | DecodeFailure>;
}
