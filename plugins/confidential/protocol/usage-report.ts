/**
 * The usage report, which an enclave signs for each request and on which charges are based (confidential-stream.md, 2).
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { canonicalBytes, isDigestName, label, readBytes } from "./encoding.ts";
import { isCount, readJsonObject } from "./strict-json.ts";
import { joinBytes, type Bytes } from "../verify/binary-text.ts";

const finishes = ["stop", "length", "cancel", "error"] as const;
export type Finish = (typeof finishes)[number];

/** `prompt` includes the cached tokens, and `completion` includes the reasoning tokens. */
export interface ReportTokens {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
  readonly reasoning: number;
}

export interface DoneUsage extends ReportTokens {
  readonly total: number;
}

export interface UsageReport {
  /** 1000 is a factor of 1. */
  readonly coefficient: number;
  /** Number of the report among all reports of the keyset. */
  readonly ctr: number;
  readonly finish: Finish;
  /** Seconds since 1970. */
  readonly iat: number;
  readonly keyset: string;
  readonly model: string;
  readonly net: string;
  /** SHA-256 of the frames in lower-case hex, likewise `resDigest`. */
  readonly reqDigest: string;
  readonly resDigest: string;
  readonly rid: number;
  /** base64url of 16 bytes. */
  readonly session: string;
  /** th2 in lower-case hex. */
  readonly th: string;
  readonly tokens: ReportTokens;
}

const type = "cstream-usage/1";
const maxReportBytes = 16_384;

/** Returns the bytes to sign and to send. Undefined if a name contains a lone surrogate. */
export function writeReport(report: UsageReport): Bytes | undefined {
  const { reqDigest, resDigest, ...members } = report;
  return canonicalBytes({ ...members, req_digest: reqDigest, res_digest: resDigest, typ: type });
}

export function reportMessage(reportBytes: Uint8Array): Bytes {
  return joinBytes(label("cstream/1 usage"), reportBytes);
}

/** Undefined for a duplicate name, a different `typ`, or a member that is missing or invalid. */
export function readReport(bytes: Uint8Array): UsageReport | undefined {
  const object = readJsonObject(bytes, maxReportBytes);
  if (object?.["typ"] !== type) return undefined;
  const { coefficient, ctr, finish, iat, keyset, model, net, rid, session, th } = object;
  const { req_digest: reqDigest, res_digest: resDigest } = object;
  const tokens = readTokens(object["tokens"]);
  if (!isCount(coefficient) || !isCount(ctr) || !isCount(iat) || !isCount(rid)) return undefined;
  if (typeof model !== "string" || typeof net !== "string") return undefined;
  if (!isFinish(finish) || !isDigestName(keyset) || tokens === undefined) return undefined;
  if (!isHash(reqDigest) || !isHash(resDigest) || !isHash(th)) return undefined;
  if (typeof session !== "string" || readBytes(session, 16) === undefined) return undefined;
  const names = { keyset, model, net, rid, session, th };
  return { coefficient, ctr, finish, iat, ...names, reqDigest, resDigest, tokens };
}

function readTokens(value: unknown): ReportTokens | undefined {
  if (!isObject(value)) return undefined;
  const { prompt, completion, cached, reasoning } = value;
  if (!isCount(prompt) || !isCount(completion)) return undefined;
  if (!isCount(cached) || !isCount(reasoning)) return undefined;
  return { prompt, completion, cached, reasoning };
}

function isFinish(value: unknown): value is Finish {
  return finishes.some((each) => each === value);
}

function isHash(value: unknown): value is string {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
}
