/** The service `host.decoder`, what a node answers read by its runtime's metadata: implemented in src/ledger/decode. */

/** Why something could not be decoded. Nothing here quotes a node. */
export interface DecodeFailure {
  readonly ok: false;
  /**
   * `unknownBlock`: no node knows it, or has its state any more. `undecodable`: the bytes are not what the runtime's
   * metadata says. `wrongAccount`: this chain's account ids have another length.
   * `unreachable`: no node answered, or the answer was none of this method's. `timeout`, `busy`: the worker pool.
   * `aborted`: the signal.
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
/** Finished JSON text. */
export type DecodedJson = { readonly ok: true; readonly json: string } | DecodeFailure;

/**
 * A call as a person reads it: integers as decimal strings, bytes as hex, accounts as addresses, enums as `{ Variant: …
 * }`.
 */
export interface CallSummary {
  /** As the metadata spells them. */
  readonly pallet: string;
  readonly method: string;
  /** The signer's address; null for a bare or general extrinsic. */
  readonly signer: string | null;
  /** Plain JSON values by argument name, cut at a bounded size (`…` marks the cut). */
  readonly args: Readonly<Record<string, unknown>>;
}

interface DecodeOptions {
  /** The caller has left; what others share goes on. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads what a node answers by its runtime's metadata, which is fetched once per runtime version. Never rejects.
 * Block hashes are `0x` and 64 hex digits; the caller has checked that.
 */
export interface Decoder {
  /**
   * `decodedExtrinsics` of a block: a JSON array of `{ index, pallet, method, args, isSigned, raw }`. `block` holds the
   * node's `chain_getBlock` result bytes, unchanged, and is only borrowed. One bad extrinsic fails alone (`unknown`).
   */
  extrinsics(block: Buffer, blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /** A JSON array of `{ index, phase, pallet, event, data }`. */
  events(blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /**
   * `{ nonce, consumers, providers, sufficients, data: { free, reserved, miscFrozen, feeFrozen } }`; zeros for an
   * account that does not exist and for what the chain does not have. `blockHash` undefined: the best block.
   */
  account(
    accountId: Uint8Array,
    blockHash: string | undefined,
    options?: DecodeOptions,
  ): Promise<DecodedJson>;
  /** The id of an SS58 address (32 or 20 bytes, any prefix, checksum verified) or of `0x` and 40 or 64 hex digits. */
  accountId(address: string): Uint8Array | undefined;
  /** What an extrinsic (with its length prefix) would do, by the best block's runtime; for confirmations. */
  summary(
    extrinsic: Uint8Array,
    options?: DecodeOptions,
  ): Promise<{ readonly ok: true; readonly summary: CallSummary } | DecodeFailure>;
}
