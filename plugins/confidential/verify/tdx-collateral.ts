import { isObject } from "sluice-gateway/internal/toolkit";
import { fromHex, type Bytes } from "./binary-text.ts";
import { utf8 } from "../protocol/encoding.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import { readJsonObject, type JsonObject } from "../protocol/strict-json.ts";
import { readPem, type Certificate } from "./certificate.ts";
import { readRevocationList, type RevocationList } from "./crl.ts";

/**
 * The wire format: chains in PEM, signed JSON texts, and signatures (r and s) and revocation lists (DER) in hex.
 * Members that other tools add (`pck_crl_issuer_chain`) are ignored: the quote contains the issuer of that list.
 */
export interface TdxCollateral {
  readonly root_ca_crl: string;
  readonly pck_crl: string;
  readonly tcb_info_issuer_chain: string;
  readonly tcb_info: string;
  readonly tcb_info_signature: string;
  readonly qe_identity_issuer_chain: string;
  readonly qe_identity: string;
  readonly qe_identity_signature: string;
}

const collateralFields = [
  "root_ca_crl",
  "pck_crl",
  "tcb_info_issuer_chain",
  "tcb_info",
  "tcb_info_signature",
  "qe_identity_issuer_chain",
  "qe_identity",
  "qe_identity_signature",
] as const satisfies readonly (keyof TdxCollateral)[];

/** Maximum length in characters. Intel's collateral has less than 20 kB, including all revoked certificates. */
const maxCollateralText = 1_048_576;

/** The signatures have not been verified. */
export interface ParsedCollateral {
  readonly text: TdxCollateral;
  readonly tcbInfo: TcbInfo;
  readonly qeIdentity: IssueDates;
  readonly tcbInfoChain: readonly Certificate[];
  readonly qeIdentityChain: readonly Certificate[];
  readonly tcbInfoSignature: Bytes;
  readonly qeIdentitySignature: Bytes;
  /** Undefined if the list is missing or malformed. */
  readonly rootCrl: RevocationList | undefined;
  readonly pckCrl: RevocationList | undefined;
}

/** The dates of a signed text, in milliseconds since 1970. */
export interface IssueDates {
  readonly issueDate: number;
  readonly nextUpdate: number;
  readonly tcbEvaluationDataNumber: number;
}

export interface TcbInfo extends IssueDates {
  /** Lower-case hex. */
  readonly fmspc: string;
  readonly pceId: string;
  readonly modules: readonly TdxModuleIdentity[];
}

export interface TdxModuleIdentity {
  /** `TDX_01` for major version 1. Undefined for the first module, which has no version. */
  readonly id: string | undefined;
  readonly mrsigner: Bytes;
  readonly attributes: Bytes;
  readonly attributesMask: Bytes;
  /** Levels, the best one first. Empty for the module without a version, whose state is part of the platform's. */
  readonly levels: readonly TdxModuleLevel[];
}

export interface TdxModuleLevel {
  readonly isvsvn: number;
  readonly status: string;
  readonly advisories: readonly string[];
}

/**
 * Returns a text with the reason if the collateral is malformed. A revocation list that is malformed becomes undefined.
 */
export function readTdxCollateral(value: unknown): ParsedCollateral | string {
  const text = collateralText(value);
  if (typeof text === "string") return text;
  const tcbInfo = readTcbInfo(text.tcb_info);
  if (tcbInfo === undefined) return "tcb_info cannot be read";
  const qeIdentity = readIssued(readObject(text.qe_identity));
  if (qeIdentity === undefined) return "qe_identity cannot be read";
  const tcbInfoChain = readPem(text.tcb_info_issuer_chain);
  const qeIdentityChain = readPem(text.qe_identity_issuer_chain);
  if (tcbInfoChain === undefined) return "tcb_info_issuer_chain cannot be read";
  if (qeIdentityChain === undefined) return "qe_identity_issuer_chain cannot be read";
  const tcbInfoSignature = fromHex(text.tcb_info_signature);
  const qeIdentitySignature = fromHex(text.qe_identity_signature);
  if (tcbInfoSignature?.length !== 64) return "tcb_info_signature is not 64 bytes";
  if (qeIdentitySignature?.length !== 64) return "qe_identity_signature is not 64 bytes";
  const rootCrl = readCrl(text.root_ca_crl);
  const pckCrl = readCrl(text.pck_crl);
  return {
    text,
    tcbInfo,
    qeIdentity,
    tcbInfoChain,
    qeIdentityChain,
    tcbInfoSignature,
    qeIdentitySignature,
    rootCrl,
    pckCrl,
  };
}

function collateralText(value: unknown): TdxCollateral | string {
  if (!isObject(value)) return "the collateral is missing";
  const text: Record<string, string> = {};
  let length = 0;
  for (const field of collateralFields) {
    const given = Object.hasOwn(value, field) ? value[field] : "";
    if (typeof given !== "string") return `${field} is not a string`;
    length += given.length;
    text[field] = given;
  }
  if (length > maxCollateralText) return "the collateral is too long";
  // The loop has set every field, and no others.
  return text as unknown as TdxCollateral;
}

function readCrl(hex: string): RevocationList | undefined {
  const der = fromHex(hex);
  return der && readRevocationList(der);
}

function readTcbInfo(text: string): TcbInfo | undefined {
  const value = readObject(text);
  const issued = readIssued(value);
  const { fmspc, pceId, id } = value ?? {};
  if (issued === undefined || id !== "TDX") return undefined;
  if (typeof fmspc !== "string" || typeof pceId !== "string") return undefined;
  const modules = readModules(value);
  if (modules === undefined) return undefined;
  return { ...issued, fmspc: fmspc.toLowerCase(), pceId: pceId.toLowerCase(), modules };
}

function readModules(tcbInfo: JsonObject | undefined): readonly TdxModuleIdentity[] | undefined {
  const { tdxModule, tdxModuleIdentities: given = [] } = tcbInfo ?? {};
  if (!isObject(tdxModule) || !Array.isArray(given)) return undefined;
  const versioned: readonly unknown[] = given;
  const modules = [readModule(tdxModule, undefined)];
  for (const identity of versioned) {
    if (!isObject(identity) || typeof identity["id"] !== "string") return undefined;
    modules.push(readModule(identity, identity["id"]));
  }
  const whole = modules.filter((module) => module !== undefined);
  return whole.length === modules.length ? whole : undefined;
}

function readModule(value: JsonObject, id: string | undefined): TdxModuleIdentity | undefined {
  const mrsigner = readHex(value["mrsigner"], 48);
  const attributes = readHex(value["attributes"], 8);
  const attributesMask = readHex(value["attributesMask"], 8);
  if (mrsigner === undefined || attributes === undefined || attributesMask === undefined) {
    return undefined;
  }
  const given: readonly unknown[] = Array.isArray(value["tcbLevels"]) ? value["tcbLevels"] : [];
  const levels = given.map(readLevel).filter((level) => level !== undefined);
  if (levels.length < given.length) return undefined;
  return { id, mrsigner, attributes, attributesMask, levels };
}

function readLevel(value: unknown): TdxModuleLevel | undefined {
  if (!isObject(value) || !isObject(value["tcb"])) return undefined;
  const { isvsvn } = value["tcb"];
  const { tcbStatus: status, advisoryIDs = [] } = value;
  if (typeof isvsvn !== "number" || typeof status !== "string" || !Array.isArray(advisoryIDs)) {
    return undefined;
  }
  return { isvsvn, status, advisories: advisoryIDs.map(String) };
}

function readIssued(value: JsonObject | undefined): IssueDates | undefined {
  const { issueDate: issued, nextUpdate: next, tcbEvaluationDataNumber } = value ?? {};
  if (typeof issued !== "string" || typeof next !== "string") return undefined;
  const issueDate = Date.parse(issued);
  const nextUpdate = Date.parse(next);
  if (Number.isNaN(issueDate) || Number.isNaN(nextUpdate)) return undefined;
  if (!Number.isSafeInteger(tcbEvaluationDataNumber)) return undefined;
  // isSafeInteger is true only for numbers.
  return { issueDate, nextUpdate, tcbEvaluationDataNumber: tcbEvaluationDataNumber as number };
}

/** Parses strictly, because the sender of the collateral is not trusted. */
function readObject(text: string): JsonObject | undefined {
  return readJsonObject(utf8(text), maxTextBytes);
}

function readHex(value: unknown, length: number): Bytes | undefined {
  const bytes = typeof value === "string" ? fromHex(value) : undefined;
  return bytes?.length === length ? bytes : undefined;
}
