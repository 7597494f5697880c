/**
 * The keyset: the public keys that an enclave created and its evidence attests. `core`: the keyset and the enclave's
 * part of one handshake.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { fault, type Fault } from "./fault.ts";
import type { Role } from "./hello.ts";
import { canonicalBytes, fromBase64Url, isDigestName, readBytes, toBase64Url } from "./encoding.ts";
import { maxKeysetSeconds, maxTextBytes } from "./limits.ts";
import { isCount, readJsonObject } from "./strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";

export interface Keyset {
  /** 32 bytes: the Ed25519 key that signs handshakes. */
  readonly hs: Bytes;
  /** 32 bytes: the Ed25519 key that signs usage reports. It is never the same as `hs`. */
  readonly ur: Bytes;
  readonly net: string;
  readonly role: Role;
  /** Seconds since 1970. */
  readonly notAfter: number;
  /** The models that the attested code claims to serve. */
  readonly models?: readonly { readonly id: string; readonly hash: string }[];
}

export interface Core {
  /** 32 bytes: the enclave's X25519 key for this session. */
  readonly epk: Bytes;
  /** The exact bytes that the evidence binds. */
  readonly keyset: Bytes;
  readonly session: Bytes;
  /** `sha256:<hex>` of the evidence of the upstream of a gateway's enclave. */
  readonly upstream?: string;
}

const maxKeysetBytes = 65_536;

/** Returns the bytes that the evidence must bind. Undefined if a name contains a lone surrogate. */
export function writeKeyset(keyset: Keyset): Bytes | undefined {
  const { hs, ur, net, role, notAfter, models } = keyset;
  const keys = { hs: toBase64Url(hs), ur: toBase64Url(ur) };
  return canonicalBytes({ ...keys, net, role, not_after: notAfter, models, v: 1 });
}

/** Unknown members are ignored; the evidence binds them anyway. */
export function readKeyset(bytes: Uint8Array): Keyset | Fault {
  const object = readJsonObject(bytes, maxKeysetBytes);
  if (object === undefined || object["v"] !== 1) return bad("it cannot be read");
  const { net, role, not_after: notAfter, models } = object;
  const hs = readBytes(object["hs"], 32);
  const ur = readBytes(object["ur"], 32);
  if (hs === undefined || ur === undefined) return bad("a key is missing or not valid");
  if (object["hs"] === object["ur"]) return bad("hs and ur are the same key");
  if (typeof net !== "string" || net === "") return bad("net is missing or not valid");
  if (role !== "worker" && role !== "gateway") return bad("role is missing or not valid");
  if (!isCount(notAfter)) return bad("not_after is missing or not valid");
  if (models === undefined) return { hs, ur, net, role, notAfter };
  if (!isModels(models)) return bad("models is not valid");
  return { hs, ur, net, role, notAfter, models };
}

/** Returns the reason why a session must not use the keyset. `now`: seconds since 1970. */
export function keysetFault(
  keyset: Keyset,
  expected: { readonly net: string; readonly role: Role; readonly now: number },
): Fault | undefined {
  const { net, role, notAfter } = keyset;
  if (net !== expected.net) return bad("it is for a different network");
  if (role !== expected.role) return bad("it is for a different role");
  if (notAfter <= expected.now) return bad("it has expired");
  if (notAfter > expected.now + maxKeysetSeconds)
    return bad("not_after is more than an hour ahead");
  return undefined;
}

function isModels(value: unknown): value is readonly { id: string; hash: string }[] {
  return (
    Array.isArray(value) &&
    value.every(
      (each) =>
        isObject(each) && typeof each["id"] === "string" && typeof each["hash"] === "string",
    )
  );
}

function bad(why: string): Fault {
  return fault("ATTESTATION_UNAVAILABLE", `keyset: ${why}`);
}

export function writeCore(core: Core): Bytes {
  const { epk, keyset, session, upstream } = core;
  const members = { epk: toBase64Url(epk), keyset: toBase64Url(keyset) };
  const bytes = canonicalBytes({ ...members, session: toBase64Url(session), upstream, v: 1 });
  if (bytes === undefined) throw new TypeError("upstream must be the name of a digest");
  return bytes;
}

export function readCore(bytes: Uint8Array): Core | Fault {
  const object = readJsonObject(bytes, maxTextBytes);
  if (object === undefined) return fault("BAD_FRAME", "core cannot be read");
  const { keyset: text, upstream } = object;
  if (object["v"] !== 1) return fault("SUITE_UNSUPPORTED", "core: the version is not supported");
  const epk = readBytes(object["epk"], 32);
  const session = readBytes(object["session"], 16);
  const keyset = typeof text === "string" ? fromBase64Url(text) : undefined;
  if (epk === undefined || session === undefined || keyset === undefined) {
    return fault("BAD_FRAME", "core: a member is missing or not valid");
  }
  if (upstream === undefined) return { epk, keyset, session };
  if (!isDigestName(upstream))
    return fault("BAD_FRAME", "core: expected `upstream` to be a SHA-256 digest");
  return { epk, keyset, session, upstream };
}
