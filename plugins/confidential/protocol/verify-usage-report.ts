/**
 * Verifies usage reports: every check of confidential-stream.md, 2, in its order. Gateway and client each reach their
 * own verdict from the frames that they have seen.
 */
import type { WatchedExchange } from "./frame-watch.ts";
import type { Attested } from "./handshake.ts";
import type { Hello } from "./hello.ts";
import { toBase64Url } from "./encoding.ts";
import { maxKeysetSeconds, maxUnseenTokens, reportSkewSeconds } from "./limits.ts";
import { readReport, reportMessage, type DoneUsage, type UsageReport } from "./usage-report.ts";
import type { Suite } from "./suite.ts";
import { createChecklist, type Checklist } from "../verify/checklist.ts";
import { toHex, type Bytes } from "../verify/binary-text.ts";
import type { Check } from "../verify/report.ts";

export type UnverifiedReason =
  | "no_report"
  | "bad_signature"
  | "unknown_key"
  | "digest_mismatch"
  | "stale"
  | "replay"
  | "usage_mismatch"
  | "simulated"
  | "policy";

export interface SignedReport {
  /** The exact bytes received. */
  readonly report: Bytes;
  /** 64 bytes. */
  readonly sig: Bytes;
}

export interface ReportExpectation {
  /** The verdict of the policy. `simulated`: a simulation, which proves nothing even if it is allowed. */
  readonly evidence: "accepted" | "simulated" | "refused";
  readonly keysetDigest: string;
  readonly reportKey: Bytes;
  /** Seconds since 1970, likewise `now`. */
  readonly notAfter: number;
  readonly now: number;
  readonly session: string;
  readonly th: Bytes;
  /** Undefined if no frame of the request was seen. */
  readonly exchange: WatchedExchange | undefined;
  readonly net: string;
  readonly model: string;
  readonly maxOutputTokens: number;
  /** Missing if the verifier does not read `done` frames. */
  readonly usage?: DoneUsage;
  /** Returns true if the counter is new. Called last, and only for a report that the keyset has signed. */
  claimCounter(keysetDigest: string, ctr: number): boolean;
}

export function sessionExpectation(
  { keyset, keysetDigest, core, th }: Attested,
  { network, model, maxOutputTokens }: Hello,
): Omit<ReportExpectation, "evidence" | "now" | "exchange" | "usage" | "claimCounter"> {
  return {
    keysetDigest,
    reportKey: keyset.ur,
    notAfter: keyset.notAfter,
    session: toBase64Url(core.session),
    th,
    net: network,
    model,
    maxOutputTokens,
  };
}

export interface ReportVerdict {
  readonly verified: boolean;
  /** The reason of the first check that failed. Missing if the report is verified. */
  readonly unverifiedReason?: UnverifiedReason;
  readonly checks: readonly Check[];
  /** The report, verified or not. Missing if there is none that can be read. */
  readonly report?: UsageReport;
}

const reasons = {
  evidence: "policy",
  report: "no_report",
  keyset: "unknown_key",
  fresh: "stale",
  signature: "bad_signature",
  session: "replay",
  digests: "digest_mismatch",
  usage: "usage_mismatch",
  counter: "replay",
  not_simulated: "simulated",
} as const satisfies Record<string, UnverifiedReason>;

type CheckName = keyof typeof reasons;
const names = Object.keys(reasons) as readonly CheckName[];

/** `signed`: undefined if no report was received. */
export async function verifyUsageReport(
  suite: Suite,
  signed: SignedReport | undefined,
  own: ReportExpectation,
): Promise<ReportVerdict> {
  const checks = createChecklist(names);
  const { evidence } = own;
  checks.record("evidence", evidence === "refused" ? "the policy refuses the evidence" : undefined);
  const simulated = "the evidence is simulated, not from hardware";
  checks.record("not_simulated", evidence === "simulated" ? simulated : undefined);
  if (signed === undefined) {
    checks.record("report", "there is no report");
    return conclude(checks.list(), undefined);
  }
  const isSigned = await suite.verify(own.reportKey, reportMessage(signed.report), signed.sig);
  checks.record("signature", isSigned ? undefined : "the signature is not from the keyset");
  const report = readReport(signed.report);
  if (report === undefined) {
    // For an unsigned report, the failed signature is more informative than the fact that it cannot be read.
    if (isSigned) checks.record("report", "the report cannot be read");
    return conclude(checks.list(), undefined);
  }
  checks.record("report", undefined);
  const isOurs = compare(report, own, checks);
  // A report of another session must not use up a counter whose report has not arrived yet.
  if (isSigned && isOurs) {
    const isNew = own.claimCounter(own.keysetDigest, report.ctr);
    checks.record("counter", isNew ? undefined : "the counter was seen before");
  }
  return conclude(checks.list(), report);
}

/** Returns true if the report belongs to this keyset, session and request. */
function compare(
  report: UsageReport,
  own: ReportExpectation,
  checks: Checklist<CheckName>,
): boolean {
  const { exchange } = own;
  const isKeyset = report.keyset === own.keysetDigest;
  checks.record("keyset", isKeyset ? undefined : "the report names another keyset");
  checks.record("fresh", freshnessFault(report, own));
  const isSession =
    report.session === own.session && report.th === toHex(own.th) && report.rid === exchange?.rid;
  checks.record("session", isSession ? undefined : "the report is for another session or request");
  checks.record("digests", digestFault(report, exchange));
  checks.record("usage", usageFault(report, own));
  return isKeyset && isSession;
}

function freshnessFault(
  { iat }: UsageReport,
  { now, notAfter }: ReportExpectation,
): string | undefined {
  if (now >= notAfter) return "the keyset has expired";
  if (notAfter > now + maxKeysetSeconds) return "the keyset is valid for too long";
  const isFresh = Math.abs(iat - now) <= reportSkewSeconds;
  return isFresh ? undefined : "the time of the report differs too much from the clock";
}

function digestFault(
  { reqDigest, resDigest }: UsageReport,
  exchange: WatchedExchange | undefined,
): string | undefined {
  if (exchange?.hasEnded !== true) return "the response has no END";
  if (reqDigest !== exchange.reqDigest) return "the request has a different digest";
  return resDigest === exchange.resDigest ? undefined : "the response has a different digest";
}

function usageFault(report: UsageReport, own: ReportExpectation): string | undefined {
  const { prompt, completion, cached, reasoning } = report.tokens;
  const { usage, maxOutputTokens, exchange } = own;
  if (report.net !== own.net || report.model !== own.model)
    return "the report is for another model";
  if (cached > prompt) return "more cached tokens than prompt tokens";
  if (reasoning > completion) return "more reasoning tokens than completion tokens";
  if (completion > maxOutputTokens) return "more completion tokens than the maximum of the session";
  const maxPrompt = (exchange?.requestBytes ?? 0) + maxUnseenTokens;
  if (prompt > maxPrompt) return "more prompt tokens than the request can contain";
  if (usage === undefined) return undefined;
  const isSame =
    usage.prompt === prompt &&
    usage.completion === completion &&
    usage.total === prompt + completion &&
    usage.cached === cached &&
    usage.reasoning === reasoning;
  return isSame ? undefined : "the usage in the done frame differs";
}

function conclude(checks: readonly Check[], report: UsageReport | undefined): ReportVerdict {
  const failed = checks.find(({ result }) => result === "fail");
  const readable = report === undefined ? {} : { report };
  if (failed === undefined) return { verified: true, checks, ...readable };
  // The checklist was created with these names.
  const unverifiedReason = reasons[failed.name as CheckName];
  return { verified: false, unverifiedReason, checks, ...readable };
}
