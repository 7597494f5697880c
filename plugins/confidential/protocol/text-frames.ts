import { isObject } from "sluice-gateway/internal/toolkit";
import { fault, isStreamCode, type Fault, type StreamCode } from "./fault.ts";
import { fromBase64Url, isDigestName, readBytes, toBase64Url } from "./encoding.ts";
import { maxTextBytes } from "./limits.ts";
import type { ReportTokens, DoneUsage } from "./usage-report.ts";
import { isCount, readJsonObject, type JsonObject } from "./strict-json.ts";
import type { Bytes } from "../verify/binary-text.ts";

export interface AttestationFrame {
  readonly kind: "attestation";
  /** The exact bytes that are signed. */
  readonly core: Bytes;
  readonly sig: Bytes;
  /** Parsed JSON that has not been checked. Undefined if only its digest was sent. */
  readonly evidence: unknown;
  /** `sha256:<hex>`. Sent instead of the evidence to a client that has it. */
  readonly evidenceDigest: string | undefined;
  /** The gateway's price offer. It is not signed and not binding. */
  readonly offer: unknown;
}

/** A usage report, sent from the worker to the gateway without encryption. */
export interface ReportFrame {
  readonly kind: "report";
  readonly rid: number;
  readonly report: Bytes;
  readonly sig: Bytes;
}

export interface DoneFrame {
  readonly kind: "done";
  readonly rid: number;
  readonly usage: DoneUsage;
  readonly usedMilliCu: number;
  /** The part of the cost that earlier attempts have paid. */
  readonly paidBeforeMilliCu: number;
  /** Undefined if the gateway has no report. */
  readonly report: Bytes | undefined;
  readonly sig: Bytes | undefined;
  /** Parsed JSON that has not been checked. */
  readonly pricing: unknown;
}

/** An error. The frame is not signed, so anyone on the path can send it; use it only for diagnosis. */
export interface ErrorFrame {
  readonly kind: "error";
  /** Undefined if the code is not defined by the protocol. */
  readonly code: StreamCode | undefined;
}

export type TextFrame = AttestationFrame | ReportFrame | DoneFrame | ErrorFrame;

export function readTextFrame(bytes: Uint8Array): TextFrame | Fault {
  const object = readJsonObject(bytes, maxTextBytes);
  const type = object?.["type"];
  let frame: TextFrame | undefined;
  if (object === undefined) return fault("BAD_FRAME", "the text frame cannot be read");
  if (type === "attestation") frame = readAttestation(object);
  else if (type === "report") frame = readReportFrame(object);
  else if (type === "done") frame = readDone(object);
  else if (type === "error") frame = readError(object);
  return (
    frame ?? fault("BAD_FRAME", "the text frame is unknown or a member is missing or not valid")
  );
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
  const { rid, usage, usedCUMilli: usedMilliCu, pricing } = object;
  const { paidBeforeCUMilli: paidBeforeMilliCu = 0 } = object;
  if (!isCount(rid) || !isCount(usedMilliCu) || !isCount(paidBeforeMilliCu)) return undefined;
  if (!isObject(usage)) return undefined;
  const tokens = readUsage(usage);
  if (tokens === undefined) return undefined;
  const report = object["report"] === undefined ? undefined : readText(object["report"]);
  const sig = readBytes(object["sig"], 64);
  const paid = { usedMilliCu, paidBeforeMilliCu, pricing };
  return { kind: "done", rid, usage: tokens, ...paid, report, sig };
}

function readError(object: JsonObject): ErrorFrame {
  const { code } = object;
  return { kind: "error", code: isStreamCode(code) ? code : undefined };
}

/** Missing details count as 0. */
function readUsage(usage: JsonObject): DoneUsage | undefined {
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage;
  const cached = readDetail(usage["prompt_tokens_details"], "cached_tokens");
  const reasoning = readDetail(usage["completion_tokens_details"], "reasoning_tokens");
  if (!isCount(prompt) || !isCount(completion) || !isCount(total)) return undefined;
  return { prompt, completion, total, cached, reasoning };
}

function readDetail(details: unknown, name: string): number {
  const count = isObject(details) ? details[name] : undefined;
  return isCount(count) ? count : 0;
}

function readText(value: unknown): Bytes | undefined {
  return typeof value === "string" ? fromBase64Url(value) : undefined;
}

export interface OpenAiUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

export function countsOf({ prompt, completion, cached, reasoning }: ReportTokens) {
  return {
    promptTokens: prompt,
    completionTokens: completion,
    cachedTokens: cached,
    reasoningTokens: reasoning,
  };
}

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

export function writeAttestation(
  core: Uint8Array,
  sig: Uint8Array,
  evidence: { readonly evidence: unknown } | { readonly evidence_digest: string },
): string {
  const signed = { core: toBase64Url(core), sig: toBase64Url(sig) };
  return JSON.stringify({ type: "attestation", ...signed, ...evidence });
}

/**
 * With this frame, the gateway cancels an answer whose client has disconnected. The worker ends the answer and reports
 * the tokens produced so far. The frame is not signed, because a relay can end a session anyway.
 */
export function writeCancelFrame(rid: number): string {
  return JSON.stringify({ type: "cancel", rid });
}

/** Returns the id of the request to cancel. Undefined for any other frame. */
export function readCancelFrame(bytes: Uint8Array): number | undefined {
  const object = readJsonObject(bytes, maxTextBytes);
  const rid = object?.["rid"];
  return object?.["type"] === "cancel" && isCount(rid) ? rid : undefined;
}

export function writeReportFrame(rid: number, report: Uint8Array, sig: Uint8Array): string {
  const signed = { report: toBase64Url(report), sig: toBase64Url(sig) };
  return JSON.stringify({ type: "report", rid, ...signed });
}
