/**
 * The policy document: the code that may decrypt the encrypted stream of each network, signed with the operator's
 * policy key (confidential-stream.md, 5). Clients pin that key, so that a relay can neither change the document nor
 * roll it back.
 */
import { parseTime } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Role } from "./hello.ts";
import { canonicalBytes, fromBase64Url, label, readBytes, toBase64Url } from "./encoding.ts";
import { readSevSnp, type SevSnpMember } from "./sev-snp-policy.ts";
import { isCount, readJsonObject, type JsonObject } from "./strict-json.ts";
import type { Signer, Suite } from "./suite.ts";
import { joinBytes, sameBytes, type Bytes } from "../verify/binary-text.ts";

export const policyPath = "/.well-known/confidential-policy.json";

/** The content of the signed document, and of the operator's own JSON or YAML file. */
export interface ConfidentialPolicy {
  readonly v: 1;
  /** Increases with each edition. */
  readonly serial: number;
  /** A time in RFC 3339, likewise `expires_at`. */
  readonly issued_at: string;
  readonly expires_at: string;
  readonly networks: Readonly<Record<string, NetworkPolicy>>;
}

export interface NetworkPolicy {
  /** The place where sessions are decrypted. A relay cannot choose it. */
  readonly termination: Role;
  /** The code that may run there. If it is missing for the role in `termination`, no code is accepted. */
  readonly worker?: EnclavePolicy;
  readonly gateway?: EnclavePolicy;
}

export interface EnclavePolicy {
  /** SHA-256 hashes in lower-case hex. */
  readonly image_hashes: readonly string[];
  /** 48 bytes each in lower-case hex. If empty, the modules that Intel's TCB info calls up to date are accepted. */
  readonly mrseam: readonly string[];
  /** Advisories (INTEL-SA-…) that a platform may have. */
  readonly advisories: readonly string[];
  readonly min_tcb_evaluation?: number;
  /** Conditions for SEV-SNP. Without them, SEV-SNP evidence is accepted only if the client has its own conditions. */
  readonly sev_snp?: SevSnpMember;
}

export interface PolicyDocument {
  /** base64url of the exact bytes that are signed, likewise `sig` (64 bytes) and `key` (32 bytes). */
  readonly policy: string;
  readonly sig: string;
  readonly key: string;
}

export interface PolicyExpectation {
  /** 32 bytes: the pinned Ed25519 key. */
  readonly key: Bytes;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** The highest serial that the reader has seen. A lower one is a rollback. */
  readonly lowestSerial?: number;
}

const maxPolicyBytes = 262_144;
/** Maximum time by which a client's clock may be slow. */
const maxAheadMs = 300_000;

/** `value`: parsed YAML or JSON. Returns a message that begins with the member if the policy is not valid. */
export function readPolicy(value: unknown): ConfidentialPolicy | string {
  if (!isObject(value)) return "the policy is not an object";
  const unknown = unknownMember(value, ["v", "serial", "issued_at", "expires_at", "networks"]);
  if (unknown !== undefined) return unknown;
  const { v, serial, issued_at, expires_at, networks } = value;
  if (v !== 1) return "v: the version is not supported";
  if (!isCount(serial)) return "serial: must be a whole number";
  const issued = readTime(issued_at);
  const expires = readTime(expires_at);
  if (issued === undefined) return "issued_at: must be a time by RFC 3339";
  if (expires === undefined) return "expires_at: must be a time by RFC 3339";
  if (expires.ms <= issued.ms) return "expires_at: must be after issued_at";
  if (!isObject(networks)) return "networks: must be an object";
  const read: [string, NetworkPolicy][] = [];
  for (const [name, entry] of Object.entries(networks)) {
    const network = readNetwork(entry);
    if (typeof network === "string") return `networks.${name}.${network}`;
    read.push([name, network]);
  }
  const times = { issued_at: issued.text, expires_at: expires.text };
  return { v, serial, ...times, networks: Object.fromEntries(read) };
}

function readNetwork(value: unknown): NetworkPolicy | string {
  if (!isObject(value)) return "termination: is missing";
  const unknown = unknownMember(value, ["termination", "worker", "gateway"]);
  if (unknown !== undefined) return unknown;
  const { termination } = value;
  if (termination !== "worker" && termination !== "gateway") {
    return "termination: must be worker or gateway";
  }
  const enclaves: Partial<Record<Role, EnclavePolicy>> = {};
  for (const role of ["worker", "gateway"] as const) {
    if (value[role] === undefined) continue;
    const enclave = readEnclave(value[role]);
    if (typeof enclave === "string") return `${role}.${enclave}`;
    enclaves[role] = enclave;
  }
  return { termination, ...enclaves };
}

function readEnclave(value: unknown): EnclavePolicy | string {
  if (!isObject(value)) return "image_hashes: is missing";
  const members = ["image_hashes", "mrseam", "advisories", "min_tcb_evaluation", "sev_snp"];
  const unknown = unknownMember(value, members);
  if (unknown !== undefined) return unknown;
  const { image_hashes, mrseam = [], advisories = [], min_tcb_evaluation } = value;
  if (!isList(image_hashes, /^[0-9a-f]{64}$/)) return "image_hashes: must be SHA-256 in hex";
  if (!isList(mrseam, /^[0-9a-f]{96}$/)) return "mrseam: must be 48 bytes in hex";
  if (!isList(advisories, /^[A-Z0-9-]{1,64}$/)) return "advisories: must be names of advisories";
  if (min_tcb_evaluation !== undefined && !isCount(min_tcb_evaluation)) {
    return "min_tcb_evaluation: must be a whole number";
  }
  const sevSnp = value["sev_snp"] === undefined ? undefined : readSevSnp(value["sev_snp"]);
  if (typeof sevSnp === "string") return sevSnp;
  return {
    image_hashes,
    mrseam,
    advisories,
    ...(min_tcb_evaluation !== undefined && { min_tcb_evaluation }),
    ...(sevSnp !== undefined && { sev_snp: sevSnp }),
  };
}

/** Returns the bytes to sign. Undefined if the name of a network contains a lone surrogate. */
export function writePolicy(policy: ConfidentialPolicy): Bytes | undefined {
  return canonicalBytes(policy);
}

export async function signPolicy(bytes: Uint8Array, signer: Signer): Promise<PolicyDocument> {
  const sig = await signer.sign(policyMessage(bytes));
  return {
    policy: toBase64Url(bytes),
    sig: toBase64Url(sig),
    key: toBase64Url(signer.publicKey),
  };
}

/** `document`: parsed JSON. Returns the policy, or a message with the reason for the refusal. */
export async function readPolicyDocument(
  suite: Suite,
  document: unknown,
  expected: PolicyExpectation,
): Promise<ConfidentialPolicy | string> {
  if (!isObject(document)) return "the document is not an object";
  const bytes = typeof document["policy"] === "string" && fromBase64Url(document["policy"]);
  const sig = readBytes(document["sig"], 64);
  const key = readBytes(document["key"], 32);
  if (!bytes || sig === undefined || key === undefined)
    return "a member of the document is missing or not valid";
  if (!sameBytes(key, expected.key)) return "the document has a different key than the pinned one";
  if (!(await suite.verify(expected.key, policyMessage(bytes), sig))) {
    return "the signature of the document is not valid";
  }
  const object = readJsonObject(bytes, maxPolicyBytes);
  const policy = object === undefined ? "the policy is not strict JSON" : readPolicy(object);
  return typeof policy === "string" ? policy : (validityProblem(policy, expected) ?? policy);
}

function validityProblem(
  { serial, issued_at, expires_at }: ConfidentialPolicy,
  { now, lowestSerial }: PolicyExpectation,
): string | undefined {
  if (now < Date.parse(issued_at) - maxAheadMs) return "the policy was issued in the future";
  if (now >= Date.parse(expires_at)) return "the policy has expired";
  const isRollback = lowestSerial !== undefined && serial < lowestSerial;
  return isRollback
    ? `the serial ${serial} is below ${lowestSerial}, which was seen before`
    : undefined;
}

function policyMessage(bytes: Uint8Array): Bytes {
  return joinBytes(label("cstream/1 policy"), bytes);
}

/** An unknown member could be a restriction, so it must not be ignored. */
function unknownMember(object: JsonObject, known: readonly string[]): string | undefined {
  const name = Object.keys(object).find((each) => !known.includes(each));
  return name === undefined ? undefined : `${name}: is not known`;
}

function readTime(value: unknown): { readonly text: string; readonly ms: number } | undefined {
  const ms = typeof value === "string" ? parseTime(value) : undefined;
  return ms === undefined ? undefined : { text: new Date(ms).toISOString(), ms };
}

function isList(value: unknown, form: RegExp): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === "string" && form.test(each));
}
