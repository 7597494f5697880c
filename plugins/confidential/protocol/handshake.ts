/**
 * The bytes that both ends hash and sign, and the keys that they derive (confidential-stream.md, 1.3). A relay checks
 * the same signature, but only the two ends have the keys.
 */
import { fault, isFault, type Fault } from "./fault.ts";
import type { Hello, Role } from "./hello.ts";
import { keysetFault, readCore, readKeyset, writeCore, type Core, type Keyset } from "./keyset.ts";
import { label, lengthPrefixed } from "./encoding.ts";
import type { Ephemeral, Signer, Suite } from "./suite.ts";
import { isZero, joinBytes, toHex, type Bytes } from "../verify/binary-text.ts";

export interface DirectionKeys {
  readonly key: Bytes;
  readonly iv: Bytes;
}

export interface SessionKeys {
  readonly c2s: DirectionKeys;
  readonly s2c: DirectionKeys;
  /** 32 bytes, from which an application can derive keys that are bound to the session. */
  readonly exporter: Bytes;
}

/** An answer whose signature and keyset have been checked. Its evidence has not been checked. */
export interface Attested {
  readonly core: Core;
  readonly keyset: Keyset;
  /** `sha256:<hex>` of the keyset's bytes. */
  readonly keysetDigest: string;
  /** 32 bytes: th2. Every frame and every report of the session is bound to it. */
  readonly th: Bytes;
}

/** `now`: seconds since 1970. */
export interface HandshakeExpectation {
  readonly net: string;
  readonly role: Role;
  readonly now: number;
}

export interface HandshakeAnswer {
  /** Exactly these bytes must be sent, because they are signed. */
  readonly core: Bytes;
  readonly sig: Bytes;
  readonly th: Bytes;
  readonly keys: SessionKeys;
}

/** `keyset`: the exact bytes that the evidence binds. `session`: 16 random bytes. */
export interface AnsweringEnclave {
  readonly keyset: Bytes;
  readonly signer: Signer;
  readonly session: Bytes;
}

/** `helloBytes`: the frame as received, from which `hello` was read. */
export async function answerHello(
  suite: Suite,
  helloBytes: Uint8Array,
  hello: Hello,
  enclave: AnsweringEnclave,
): Promise<HandshakeAnswer | Fault> {
  const ephemeral = await suite.createEphemeral();
  const { keyset, session, signer } = enclave;
  const core = writeCore({ epk: ephemeral.publicKey, keyset, session });
  const th1 = await suite.sha256(transcript(helloBytes, core));
  const sig = await signer.sign(handshakeMessage(th1));
  const th = await suite.sha256(joinBytes(th1, sig));
  const keys = await agreeKeys(suite, ephemeral, hello.epk, th);
  return isFault(keys) ? keys : { core, sig, th, keys };
}

export async function readAnswer(
  suite: Suite,
  helloBytes: Uint8Array,
  coreBytes: Bytes,
  sig: Bytes,
  expected: HandshakeExpectation,
): Promise<Attested | Fault> {
  const core = readCore(coreBytes);
  if (isFault(core)) return core;
  const keyset = readKeyset(core.keyset);
  if (isFault(keyset)) return keyset;
  const unfit = keysetFault(keyset, expected);
  if (unfit !== undefined) return unfit;
  const th1 = await suite.sha256(transcript(helloBytes, coreBytes));
  if (!(await suite.verify(keyset.hs, handshakeMessage(th1), sig))) {
    return fault("ATTESTATION_UNAVAILABLE", "the handshake's signature is not valid");
  }
  const th = await suite.sha256(joinBytes(th1, sig));
  return { core, keyset, keysetDigest: await digestName(suite, core.keyset), th };
}

/** `ephemeral`: the key pair whose public key was sent in `hello`. */
export async function clientKeys(
  suite: Suite,
  ephemeral: Ephemeral,
  attested: Attested,
): Promise<SessionKeys | Fault> {
  return agreeKeys(suite, ephemeral, attested.core.epk, attested.th);
}

async function agreeKeys(
  suite: Suite,
  ephemeral: Ephemeral,
  peer: Bytes,
  th: Bytes,
): Promise<SessionKeys | Fault> {
  const ikm = await ephemeral.agree(peer);
  // For a key of low order, some implementations return zeros and others return nothing.
  if (ikm === undefined || isZero(ikm))
    return fault("BAD_FRAME", "the ephemeral public key `epk` is invalid");
  return sessionKeys(suite, th, ikm);
}

/** `th`: th2. `ikm`: the 32 bytes that both ends agreed on. */
export async function sessionKeys(suite: Suite, th: Bytes, ikm: Bytes): Promise<SessionKeys> {
  const outputs = await suite.hkdf(th, ikm, [
    { info: "cstream/1 c2s key", length: 32 },
    { info: "cstream/1 c2s iv", length: 12 },
    { info: "cstream/1 s2c key", length: 32 },
    { info: "cstream/1 s2c iv", length: 12 },
    { info: "cstream/1 exporter", length: 32 },
  ]);
  // `hkdf` returns one output for each name.
  const [c2sKey, c2sIv, s2cKey, s2cIv, exporter] = outputs as [Bytes, Bytes, Bytes, Bytes, Bytes];
  return { c2s: { key: c2sKey, iv: c2sIv }, s2c: { key: s2cKey, iv: s2cIv }, exporter };
}

/** The bytes whose SHA-256 is th1. */
export function transcript(helloBytes: Uint8Array, coreBytes: Uint8Array): Bytes {
  return joinBytes(
    label("cstream/1 transcript"),
    lengthPrefixed(helloBytes),
    lengthPrefixed(coreBytes),
  );
}

export function handshakeMessage(th1: Uint8Array): Bytes {
  return joinBytes(label("cstream/1 handshake"), th1);
}

export async function digestName(suite: Suite, bytes: Bytes): Promise<string> {
  return `sha256:${toHex(await suite.sha256(bytes))}`;
}
