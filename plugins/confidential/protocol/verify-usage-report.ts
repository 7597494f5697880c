/**
 * Whether a usage report is to be believed: every check of confidential-stream.md, 2, in its order. Gateway and client
 * each come to their own verdict with their own account of the session.
 */
import type { WatchedExchange } from "./frame-watch.ts";
import type { Attested } from "./handshake.ts";
import type { Hello } from "./hello.ts";
import { toBase64Url } from "./encoding.ts";
import { maxKeysetSeconds, maxUnseenTokens, reportSkewSeconds } from "./limits.ts";
import { readReport, reportMessage } from "./usage-report.ts";
import type { DoneUsage, UsageReport } from "./usage-report.ts";
import type { Suite } from "./suite.ts";
import { createChecklist } from "../verify/checklist.ts";
import type { Checklist } from "../verify/checklist.ts";
import { toHex } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";
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

/** What the verifier knows of the session itself, without the report. */
export interface ReportExpectation {
  /** What its policy makes of the evidence; `simulated` also where a simulation was allowed but proves nothing. */
  readonly evidence: "accepted" | "simulated" | "refused";
  /** `sha256:<hex>`. */
  readonly keysetDigest: string;
  /** 32 bytes: the attested report key. */
  readonly reportKey: Bytes;
  /** Of the keyset, seconds since 1970. */
  readonly notAfter: number;
  /** Seconds since 1970. */
  readonly now: number;
  /** base64url of 16 bytes. */
  readonly session: string;
  /** 32 bytes: th2. */
  readonly th: Bytes;
  /** Undefined when no frame of the request was seen. */
  readonly exchange: WatchedExchange | undefined;
  readonly net: string;
  readonly model: string;
  readonly maxOutputTokens: number;
  /** Of the `done` frame, by whoever reads one. */
  readonly usage?: DoneUsage;
  /** Whether the keyset's counter is new; asked last, and only for a report that the keyset signed. */
  claimCounter(keysetDigest: string, ctr: number): boolean;
}

/** What of it the handshake settles, for every request of the session. */
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
  /** The first check that failed; absent when verified. */
  readonly unverifiedReason?: UnverifiedReason;
  readonly checks: readonly Check[];
  /** What the report says, believed or not; absent when there is none that can be read. */
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

/** `signed` undefined: none came. */
export async function verifyUsageReport(
  suite: Suite,
  signed: SignedReport | undefined,
  own: ReportExpectation,
): Promise<ReportVerdict> {
  const checks = createChecklist(names);
  checks.record("evidence", own.evidence === "refused" ? "the policy refuses it" : undefined);
  checks.record("not_simulated", own.evidence === "simulated" ? "no hardware vouches" : undefined);
  if (signed === undefined) {
    checks.record("report", "there is none");
    return conclude(checks.list(), undefined);
  }
  const isSigned = await suite.verify(own.reportKey, reportMessage(signed.report), signed.sig);
  checks.record("signature", isSigned ? undefined : "it is not the keyset's");
  const report = readReport(signed.report);
  if (report === undefined) {
    // What nobody signed is no report; a signature that fails says more than that it cannot be read.
    if (isSigned) checks.record("report", "it cannot be read");
    return conclude(checks.list(), undefined);
  }
  checks.record("report", undefined);
  const isOurs = compare(report, own, checks);
  // A report of another session would use up a counter that is still to come.
  if (isSigned && isOurs) {
    const isNew = own.claimCounter(own.keysetDigest, report.ctr);
    checks.record("counter", isNew ? undefined : "the counter was seen before");
  }
  return conclude(checks.list(), report);
}

/** Records what can be told without cryptography; whether the report is of this keyset, session and request. */
function compare(
  report: UsageReport,
  own: ReportExpectation,
  checks: Checklist<CheckName>,
): boolean {
  const { exchange } = own;
  const isKeyset = report.keyset === own.keysetDigest;
  checks.record("keyset", isKeyset ? undefined : "it names another keyset");
  checks.record("fresh", freshnessFault(report, own));
  const isSession =
    report.session === own.session && report.th === toHex(own.th) && report.rid === exchange?.rid;
  checks.record("session", isSession ? undefined : "it is of another session or request");
  checks.record("digests", digestFault(report, exchange));
  checks.record("usage", usageFault(report, own));
  return isKeyset && isSession;
}

function freshnessFault(
  { iat }: UsageReport,
  { now, notAfter }: ReportExpectation,
): string | undefined {
  if (now >= notAfter) return "the keyset has expired";
  if (notAfter > now + maxKeysetSeconds) return "the keyset lasts too long";
  return Math.abs(iat - now) > reportSkewSeconds ? "it is of another time" : undefined;
}

function digestFault(
  { reqDigest, resDigest }: UsageReport,
  exchange: WatchedExchange | undefined,
): string | undefined {
  if (exchange?.hasEnded !== true) return "the response has no END";
  if (reqDigest !== exchange.reqDigest) return "the request differs";
  return resDigest === exchange.resDigest ? undefined : "the response differs";
}

function usageFault(report: UsageReport, own: ReportExpectation): string | undefined {
  const { prompt, completion, cached, reasoning } = report.tokens;
  const { usage, maxOutputTokens, exchange } = own;
  if (report.net !== own.net || report.model !== own.model) return "it is of another model";
  if (cached > prompt || reasoning > completion) return "its parts exceed the whole";
  if (completion > maxOutputTokens) return "more tokens than were asked for";
  const mostPrompt = (exchange?.requestBytes ?? 0) + maxUnseenTokens;
  if (prompt > mostPrompt) return "more tokens than the request can hold";
  if (usage === undefined) return undefined;
  const isSame =
    usage.prompt === prompt &&
    usage.completion === completion &&
    usage.total === prompt + completion &&
    usage.cached === cached &&
    usage.reasoning === reasoning;
  return isSame ? undefined : "the usage told differs";
}

function conclude(checks: readonly Check[], report: UsageReport | undefined): ReportVerdict {
  const failed = checks.find(({ result }) => result === "fail");
  const told = report === undefined ? {} : { report };
  if (failed === undefined) return { verified: true, checks, ...told };
  // Every check of this list has one of these names.
  const unverifiedReason = reasons[failed.name as CheckName];
  return { verified: false, unverifiedReason, checks, ...told };
}
