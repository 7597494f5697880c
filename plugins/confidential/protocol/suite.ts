/**
 * The protocol's cryptography. It has two implementations: node:crypto returns values, and WebCrypto returns promises.
 */
import type { Bytes } from "../verify/binary-text.ts";

type Awaitable<Value> = Value | Promise<Value>;

export interface Suite {
  sha256(bytes: Bytes): Awaitable<Bytes>;
  /** RFC 5869 with SHA-256. Returns one output of at most 32 bytes for each name. */
  hkdf(salt: Bytes, ikm: Bytes, outputs: readonly KeyOutput[]): Awaitable<readonly Bytes[]>;
  /** Creates an X25519 key for one session. */
  createEphemeral(): Awaitable<Ephemeral>;
  /** Verifies an Ed25519 signature. Returns false if the key or the signature is malformed. */
  verify(publicKey: Bytes, message: Bytes, signature: Bytes): Awaitable<boolean>;
  /** Creates an incremental SHA-256. */
  readonly newHash: () => IncrementalHash;
}

export interface KeyOutput {
  /** The `info` of HKDF, in ASCII. */
  readonly info: string;
  readonly length: number;
}

export interface Ephemeral {
  /** 32 bytes. */
  readonly publicKey: Bytes;
  /** Returns 32 bytes. Undefined if the peer's key has a low order or is not a key (RFC 7748, 6.1). */
  agree(peer: Bytes): Awaitable<Bytes | undefined>;
}

/** An Ed25519 key for signing. */
export interface Signer {
  /** 32 bytes. */
  readonly publicKey: Bytes;
  /** Returns 64 bytes. */
  sign(message: Bytes): Awaitable<Bytes>;
}

export interface IncrementalHash {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}
