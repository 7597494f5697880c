/**
 * The cryptography that the protocol stands on, for whoever brings it: node:crypto answers at once, WebCrypto with a
 * promise. What is hashed, signed and derived is the same for both.
 */
import type { Bytes } from "../verify/binary-text.ts";

type Awaitable<Value> = Value | Promise<Value>;

export interface Suite {
  /** 32 bytes. */
  sha256(bytes: Bytes): Awaitable<Bytes>;
  /** RFC 5869 with SHA-256: one output for each name, of at most 32 bytes. */
  hkdf(salt: Bytes, ikm: Bytes, outputs: readonly KeyOutput[]): Awaitable<readonly Bytes[]>;
  /** A new X25519 key for one session. */
  createEphemeral(): Awaitable<Ephemeral>;
  /** Ed25519. False for whatever is no key or no signature. */
  verify(publicKey: Bytes, message: Bytes, signature: Bytes): Awaitable<boolean>;
  /** SHA-256 of what comes bit by bit. */
  readonly newHash: () => IncrementalHash;
}

export interface KeyOutput {
  /** HKDF's `info`, ASCII. */
  readonly info: string;
  readonly length: number;
}

export interface Ephemeral {
  /** 32 bytes. */
  readonly publicKey: Bytes;
  /** 32 bytes; undefined where the peer's key is of low order, or none: RFC 7748, 6.1. */
  agree(peer: Bytes): Awaitable<Bytes | undefined>;
}

/** An Ed25519 key that signs. */
export interface Signer {
  /** 32 bytes. */
  readonly publicKey: Bytes;
  /** 64 bytes. */
  sign(message: Bytes): Awaitable<Bytes>;
}

export interface IncrementalHash {
  update(bytes: Uint8Array): unknown;
  digest(): Uint8Array;
}
