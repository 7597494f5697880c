/** A second implementation of the protocol, written from the specification with another library, without our code. */
import { gcm } from "@noble/ciphers/aes.js";
import { ed25519, x25519 } from "@noble/curves/ed25519.js";
import { expand, extract } from "@noble/hashes/hkdf.js";
import { sha256 } from "@noble/hashes/sha2.js";

export interface NobleKeys {
  readonly c2s: { readonly key: Uint8Array; readonly iv: Uint8Array };
  readonly s2c: { readonly key: Uint8Array; readonly iv: Uint8Array };
  readonly exporter: Uint8Array;
}

export interface NobleFrame {
  readonly type: number;
  readonly flags: number;
  readonly rid: number;
  readonly seq: bigint;
  readonly version?: number;
  readonly epoch?: number;
}

const ascii = (text: string): Uint8Array => Buffer.from(text, "latin1");
const labelled = (text: string): Uint8Array => ascii(`${text}\0`);

function lp(bytes: Uint8Array): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function hashed(...parts: readonly Uint8Array[]): Uint8Array {
  return sha256(Buffer.concat(parts));
}

export const nobleHex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
export const nobleBase64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");

/** Supports objects of strings and integers that are nested once. */
export function nobleJcs(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const object = value as Record<string, unknown>;
  const names = Object.keys(object).toSorted();
  return `{${names.map((name) => `${JSON.stringify(name)}:${nobleJcs(object[name])}`).join(",")}}`;
}

export function nobleAgreement(secret: Uint8Array, peer: Uint8Array): Uint8Array | undefined {
  try {
    return x25519.getSharedSecret(secret, peer);
  } catch {
    return undefined;
  }
}

export const noblePublic = (secret: Uint8Array): Uint8Array => x25519.getPublicKey(secret);
export const nobleSigningPublic = (seed: Uint8Array): Uint8Array => ed25519.getPublicKey(seed);

export function nobleSchedule(th2: Uint8Array, ikm: Uint8Array): NobleKeys {
  const prk = extract(sha256, ikm, th2);
  const of = (name: string, length: number): Uint8Array =>
    expand(sha256, prk, ascii(`cstream/1 ${name}`), length);
  return {
    c2s: { key: of("c2s key", 32), iv: of("c2s iv", 12) },
    s2c: { key: of("s2c key", 32), iv: of("s2c iv", 12) },
    exporter: of("exporter", 32),
  };
}

export interface NobleAnswer {
  readonly core: Uint8Array;
  readonly sig: Uint8Array;
  readonly th2: Uint8Array;
  readonly keys: NobleKeys | undefined;
}

/** The enclave. `secrets`: X25519 key, Ed25519 seed of `hs`, both 32 bytes. */
export function nobleAnswer(
  hello: Uint8Array,
  clientKey: Uint8Array,
  keyset: Uint8Array,
  session: Uint8Array,
  secrets: { readonly ephemeral: Uint8Array; readonly hs: Uint8Array },
): NobleAnswer {
  const text = nobleJcs({
    epk: nobleBase64(noblePublic(secrets.ephemeral)),
    keyset: nobleBase64(keyset),
    session: nobleBase64(session),
    v: 1,
  });
  const core = Buffer.from(text);
  const th1 = hashed(labelled("cstream/1 transcript"), lp(hello), lp(core));
  const message = Buffer.concat([labelled("cstream/1 handshake"), th1]);
  const sig = ed25519.sign(message, secrets.hs);
  const th2 = hashed(th1, sig);
  const ikm = nobleAgreement(secrets.ephemeral, clientKey);
  return { core, sig, th2, keys: ikm === undefined ? undefined : nobleSchedule(th2, ikm) };
}

/** The client. Undefined when the signature does not hold. */
export function nobleComplete(
  hello: Uint8Array,
  core: Uint8Array,
  sig: Uint8Array,
  secret: Uint8Array,
): { readonly th2: Uint8Array; readonly keys: NobleKeys } | undefined {
  const members = JSON.parse(Buffer.from(core).toString()) as { epk: string; keyset: string };
  const keyset = JSON.parse(Buffer.from(members.keyset, "base64url").toString()) as { hs: string };
  const th1 = hashed(labelled("cstream/1 transcript"), lp(hello), lp(core));
  const message = Buffer.concat([labelled("cstream/1 handshake"), th1]);
  if (!ed25519.verify(sig, message, Buffer.from(keyset.hs, "base64url"))) return undefined;
  const th2 = hashed(th1, sig);
  const ikm = nobleAgreement(secret, Buffer.from(members.epk, "base64url"));
  return ikm === undefined ? undefined : { th2, keys: nobleSchedule(th2, ikm) };
}

function nobleCipher(
  keys: { readonly key: Uint8Array; readonly iv: Uint8Array },
  th2: Uint8Array,
  header: Uint8Array,
): ReturnType<typeof gcm> {
  const nonce = Buffer.from(keys.iv);
  for (let at = 0; at < 8; at++) nonce[4 + at] = (nonce[4 + at] ?? 0) ^ (header[8 + at] ?? 0);
  return gcm(keys.key, nonce, Buffer.concat([header, th2]));
}

/** Encrypts any plaintext with any header, valid or not. */
export function nobleSealRaw(
  keys: { readonly key: Uint8Array; readonly iv: Uint8Array },
  th2: Uint8Array,
  frame: NobleFrame,
  plaintext: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const header = Buffer.alloc(16);
  header.set([frame.version ?? 1, frame.type, frame.flags, frame.epoch ?? 0]);
  header.writeUInt32BE(frame.rid, 4);
  header.writeBigUInt64BE(frame.seq, 8);
  const sealed = nobleCipher(keys, th2, header).encrypt(plaintext);
  return Uint8Array.from(Buffer.concat([header, sealed]));
}

export function nobleSeal(
  keys: { readonly key: Uint8Array; readonly iv: Uint8Array },
  th2: Uint8Array,
  frame: NobleFrame,
  data: Uint8Array,
  pad: number,
): Uint8Array<ArrayBuffer> {
  const prefixed = lp(data);
  const excess = pad === 0 ? 0 : prefixed.length % pad;
  const zeros = Buffer.alloc(excess === 0 ? 0 : pad - excess);
  return nobleSealRaw(keys, th2, frame, Buffer.concat([prefixed, zeros]));
}

/** Decrypts a frame. Throws if it is not authentic. */
export function nobleOpen(
  keys: { readonly key: Uint8Array; readonly iv: Uint8Array },
  th2: Uint8Array,
  frame: Uint8Array,
): { readonly frame: NobleFrame; readonly data: Uint8Array; readonly plaintextBytes: number } {
  const header = Buffer.from(frame.subarray(0, 16));
  const plaintext = Buffer.from(nobleCipher(keys, th2, header).decrypt(frame.subarray(16)));
  const length = plaintext.readUInt32BE(0);
  if (plaintext.subarray(4 + length).some((byte) => byte !== 0)) throw new Error("padding");
  return {
    frame: {
      version: header.readUInt8(0),
      type: header.readUInt8(1),
      flags: header.readUInt8(2),
      epoch: header.readUInt8(3),
      rid: header.readUInt32BE(4),
      seq: header.readBigUInt64BE(8),
    },
    data: plaintext.subarray(4, 4 + length),
    plaintextBytes: plaintext.length,
  };
}

export function nobleDigest(direction: "c2s" | "s2c", frames: readonly Uint8Array[]): string {
  return nobleHex(hashed(labelled(`cstream/1 ${direction} stream`), ...frames.map(lp)));
}

export function nobleSignReport(report: Uint8Array, seed: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = Buffer.concat([labelled("cstream/1 usage"), report]);
  return Uint8Array.from(ed25519.sign(message, seed));
}

export function nobleVerifyReport(report: Uint8Array, sig: Uint8Array, ur: Uint8Array): boolean {
  return ed25519.verify(sig, Buffer.concat([labelled("cstream/1 usage"), report]), ur);
}

export function nobleReportData(
  keyset: Uint8Array,
  nonce: Uint8Array | null,
  role: string,
): Uint8Array {
  const statement = nobleJcs({
    keyset: `sha256:${nobleHex(hashed(keyset))}`,
    nonce: nonce === null ? null : nobleHex(nonce),
    role,
    v: 1,
  });
  return Buffer.concat([ascii("CSTRM1RD"), hashed(Buffer.from(statement)), Buffer.alloc(24)]);
}
