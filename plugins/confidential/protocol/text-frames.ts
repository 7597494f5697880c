/**
 * The text frames after `hello`, as whoever receives them reads them. `error` is written by `errorFrame` (fault.ts).
 */
import { fault, isStreamCode } from "./fault.ts";
import type { Fault, StreamCode } from "./fault.ts";
import { fromBase64Url, isDigestName, readBytes, toBase64Url } from "./encoding.ts";
import { maxTextBytes } from "./limits.ts";
import type { ReportTokens, DoneUsage } from "./usage-report.ts";
import { isCount, isJsonObject, readJsonObject } from "./strict-json.ts";
import type { JsonObject } from "./strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";

export interface AttestationFrame {
  readonly kind: "attestation";
  /** The exact bytes that are signed. */
  readonly core: Bytes;
  /** 64 bytes. */
  readonly sig: Bytes;
  /** Parsed JSON, not looked at; undefined where only its digest came. */
  readonly evidence: unknown;
  /** `sha256:<hex>`, for a client that has the evidence. */
  readonly evidenceDigest: string | undefined;
  /** The gateway's, not signed: advice. */
  readonly offer: unknown;
}

/** From worker to gateway, in the clear. */
export interface ReportFrame {
  readonly kind: "report";
  readonly rid: number;
  /** The exact bytes that are signed. */
  readonly report: Bytes;
  /** 64 bytes. */
  readonly sig: Bytes;
}

export interface DoneFrame {
  readonly kind: "done";
  readonly rid: number;
  readonly usage: DoneUsage;
  readonly usedCuMilli: number;
  /** What attempts before it have paid of its cost; 0: nothing. */
  readonly paidBeforeCuMilli: number;
  /** Undefined where the gateway has none to show. */
  readonly report: Bytes | undefined;
  readonly sig: Bytes | undefined;
  /** Parsed JSON, not looked at. */
  readonly pricing: unknown;
}

/** Told by whoever holds the line, signed by nobody: for diagnosis only. */
export interface ErrorFrame {
  readonly kind: "error";
  /** Undefined for a code that is not the protocol's. */
  readonly code: StreamCode | undefined;
}

export type TextFrame = AttestationFrame | ReportFrame | DoneFrame | ErrorFrame;

/** A frame that is not understood is a fault. `bytes`: as received. */
export function readTextFrame(bytes: Uint8Array): TextFrame | Fault {
  const object = readJsonObject(bytes, maxTextBytes);
  const type = object?.["type"];
  let frame: TextFrame | undefined;
  if (object === undefined) return fault("BAD_FRAME", "the text frame cannot be read");
  if (type === "attestation") frame = readAttestation(object);
  else if (type === "report") frame = readReportFrame(object);
  else if (type === "done") frame = readDone(object);
  else if (type === "error") frame = readError(object);
  return frame ?? fault("BAD_FRAME", "the text frame is not known or not whole");
}

function readAttestation(object: JsonObject): AttestationFrame | undefined {
  const { evidence, evidence_digest: evidenceDigest, offer } = object;
  const core = readText(object["core"]);
  const sig = readBytes(object["sig"], 64);
  if (core === undefined || sig === undefined) return undefined;
  if (evidenceDigest !== undefined && !isDigestName(evidenceDigest)) return undefined;
  if (evidence === undefined && evidenceDigest === undefined) return undefined;
  return { kind: "attestation", core, sig, evidence, evidenceDigest, offer };
}

function readReportFrame(object: JsonObject): ReportFrame | undefined {
  const { rid } = object;
  const report = readText(object["report"]);
  const sig = readBytes(object["sig"], 64);
  if (!isCount(rid) || report === undefined || sig === undefined) return undefined;
  return { kind: "report", rid, report, sig };
}

function readDone(object: JsonObject): DoneFrame | undefined {
  const { rid, usage, usedCUMilli: usedCuMilli, pricing } = object;
  const { paidBeforeCUMilli: paidBeforeCuMilli = 0 } = object;
  if (!isCount(rid) || !isCount(usedCuMilli) || !isCount(paidBeforeCuMilli)) return undefined;
  if (!isJsonObject(usage)) return undefined;
  const told = readUsage(usage);
  if (told === undefined) return undefined;
  const report = object["report"] === undefined ? undefined : readText(object["report"]);
  const sig = readBytes(object["sig"], 64);
  return { kind: "done", rid, usage: told, usedCuMilli, paidBeforeCuMilli, report, sig, pricing };
}

function readError(object: JsonObject): ErrorFrame {
  const { code } = object;
  return { kind: "error", code: isStreamCode(code) ? code : undefined };
}

/** OpenAI's `usage`; details that are missing are 0. */
function readUsage(usage: JsonObject): DoneUsage | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  const cached = readDetail(usage["prompt_tokens_details"], "cached_tokens");
  const reasoning = readDetail(usage["completion_tokens_details"], "reasoning_tokens");
  if (!isCount(prompt) || !isCount(completion) || !isCount(total)) return undefined;
  return { prompt, completion, total, cached, reasoning };
}

function readDetail(details: unknown, name: string): number {
  const count = isJsonObject(details) ? details[name] : undefined;
  return isCount(count) ? count : 0;
}

function readText(value: unknown): Bytes | undefined {
  return typeof value === "string" ? fromBase64Url(value) : undefined;
}

/** OpenAI's `usage`. */
export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

/** As it stands in a report. */
export function usageOf(tokens: ReportTokens): OpenAiUsage {
  const { prompt, completion, cached, reasoning } = tokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: cached },
    completion_tokens_details: { reasoning_tokens: reasoning },
  };
}

/** The enclave's answer to `hello`. `evidence`: as JSON, or the digest of what the client has. */
export function writeAttestation(
  core: Uint8Array,
  sig: Uint8Array,
  evidence: { readonly evidence: unknown } | { readonly evidence_digest: string },
): string {
  const signed = { core: toBase64Url(core), sig: toBase64Url(sig) };
  return JSON.stringify({ type: "attestation", ...signed, ...evidence });
}

/**
 * From gateway to worker, when the client has left and cannot cancel itself: the answer ends here, and its report says
 * what was made. Unsigned: whoever relays can end a session anyway.
 */
export function writeCancelFrame(rid: number): string {
  return JSON.stringify({ type: "cancel", rid });
}

/** The request that is to end; undefined for any other frame. `bytes`: as received. */
export function readCancelFrame(bytes: Uint8Array): number | undefined {
  const object = readJsonObject(bytes, maxTextBytes);
  const rid = object?.["rid"];
  return object?.["type"] === "cancel" && isCount(rid) ? rid : undefined;
}

/** From worker to gateway. */
export function writeReportFrame(rid: number, report: Uint8Array, sig: Uint8Array): string {
  const signed = { report: toBase64Url(report), sig: toBase64Url(sig) };
  return JSON.stringify({ type: "report", rid, ...signed });
}
