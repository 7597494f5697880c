/** The `hello` frame, with which a client requests a session. Its bytes are hashed as received and never rewritten. */
import { fault, type Fault } from "./fault.ts";
import { isDigestName, readBytes, toBase64Url, utf8 } from "./encoding.ts";
import { defaultPad, maxHelloBytes, pads, type Pad } from "./limits.ts";
import { isCount, readJsonObject, type JsonObject } from "./strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";

/** The only cipher suite: nothing is negotiated. */
const suiteName = "x25519-hkdf-sha256-aes256gcm";
export const clientSubprotocol = "confidential.v1";
export const workerSubprotocol = "cstream.worker.v1";

/** The place where the session is decrypted: in the worker, next to the model, or in the gateway's own enclave. */
export type Role = "worker" | "gateway";

export interface Hello {
  readonly network: string;
  readonly model: string;
  readonly maxOutputTokens: number;
  /** Highest price coefficient that the client accepts. 1000 is a factor of 1. */
  readonly maxCoefficient: number | undefined;
  readonly termination: Role;
  /** 32 bytes: the client's X25519 key. */
  readonly epk: Bytes;
  readonly nonce: Bytes;
  readonly pad: Pad;
  /** `known`: evidence whose digest is in `known` need not be sent. */
  readonly evidence: "full" | "known";
  readonly known: readonly string[];
  /** `quote`: the evidence must contain a new quote that binds the nonce. */
  readonly freshness: "cached" | "quote";
  readonly idempotencyKey: string | undefined;
}

const maxNameLength = 256;
const maxKnown = 64;

/**
 * `bytes`: the text frame as received. Unknown members are ignored. The defaults of `pad`, `evidence` and `freshness`
 * are 256, `full` and `cached`.
 */
export function readHello(bytes: Uint8Array): Hello | Fault {
  const object = readJsonObject(bytes, maxHelloBytes);
  if (object?.["type"] !== "hello") return fault("BAD_FRAME", "expected hello");
  // The version is checked first, because other versions can have other members.
  if (object["v"] !== 1) return fault("SUITE_UNSUPPORTED", "the version is not supported");
  if (object["suite"] !== suiteName) {
    return fault("SUITE_UNSUPPORTED", "the suite is not supported");
  }
  return readMembers(object);
}

function readMembers(object: JsonObject): Hello | Fault {
  const { network, model, termination, idempotency_key: idempotencyKey } = object;
  const { evidence = "full", freshness = "cached", known = [] } = object;
  const { max_output_tokens: maxOutputTokens, max_coefficient: maxCoefficient } = object;
  const epk = readBytes(object["epk"], 32);
  const nonce = readBytes(object["nonce"], 32);
  const pad =
    object["pad"] === undefined ? defaultPad : pads.find((each) => each === object["pad"]);
  if (!isName(network)) return bad("network");
  if (!isName(model)) return bad("model");
  if (!isCount(maxOutputTokens) || maxOutputTokens === 0) return bad("max_output_tokens");
  if (maxCoefficient !== undefined && !isCount(maxCoefficient)) return bad("max_coefficient");
  if (termination !== "worker" && termination !== "gateway") return bad("termination");
  if (epk === undefined) return bad("epk");
  if (nonce === undefined) return bad("nonce");
  if (pad === undefined) return bad("pad");
  if (evidence !== "full" && evidence !== "known") return bad("evidence");
  if (freshness !== "cached" && freshness !== "quote") return bad("freshness");
  if (!isKnown(known)) return bad("known");
  if (idempotencyKey !== undefined && !isName(idempotencyKey)) return bad("idempotency_key");
  return {
    network,
    model,
    maxOutputTokens,
    maxCoefficient,
    termination,
    epk,
    nonce,
    pad,
    evidence,
    known,
    freshness,
    idempotencyKey,
  };
}

/** Exactly these bytes must be sent, because the handshake hashes them. */
export function writeHello(hello: Hello): Bytes {
  const { maxCoefficient, idempotencyKey } = hello;
  const members = {
    type: "hello",
    v: 1,
    suite: suiteName,
    network: hello.network,
    model: hello.model,
    max_output_tokens: hello.maxOutputTokens,
    max_coefficient: maxCoefficient,
    termination: hello.termination,
    epk: toBase64Url(hello.epk),
    nonce: toBase64Url(hello.nonce),
    pad: hello.pad,
    evidence: hello.evidence,
    known: hello.known.length > 0 ? hello.known : undefined,
    freshness: hello.freshness,
    idempotency_key: idempotencyKey,
  };
  return utf8(JSON.stringify(members));
}

function bad(member: string): Fault {
  return fault("BAD_FRAME", `hello: ${member} is missing or not valid`);
}

/** A name must be well-formed, because reports repeat it. */
function isName(value: unknown): value is string {
  if (typeof value !== "string" || value.length === 0) return false;
  return value.length <= maxNameLength && value.isWellFormed();
}

function isKnown(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= maxKnown && value.every(isDigestName);
}
