import { sessionExpectation, verifyUsageReport } from "../protocol/verify-usage-report.ts";
import type { ReportVerdict, SignedReport } from "../protocol/verify-usage-report.ts";
import { usageOf, type DoneFrame } from "../protocol/text-frames.ts";
import type { FinalAnswer } from "./answer.ts";
import { readPricing, recomputeCost, type StreamPricing } from "./cost.ts";
import type { OpenSession } from "./handshake-attempt.ts";
import type { Settings } from "./options.ts";
import { webSuite } from "./web-crypto.ts";

/** The content of the last frame, which the enclave encrypted. */
export interface FinalFrame {
  readonly finishReason: string;
  readonly error: string | undefined;
  readonly errorCode: string | undefined;
  readonly contextExceeded: FinalAnswer["contextExceeded"];
}

export async function createFinalAnswer(
  open: OpenSession,
  settings: Settings,
  done: DoneFrame,
  { finishReason, error, errorCode, contextExceeded }: FinalFrame,
): Promise<FinalAnswer> {
  const { report: bytes, sig, usage, usedMilliCu, paidBeforeMilliCu } = done;
  const signedReport =
    bytes === undefined || sig === undefined ? undefined : { report: bytes, sig };
  const verdict = checkCoefficient(
    await verifyReport(open, settings, done, signedReport),
    settings,
  );
  const { verified, unverifiedReason, checks, report } = verdict;
  const pricing = readPricing(done.pricing);
  return {
    // All numbers are the gateway's, including total_tokens.
    usage: {
      ...usageOf(usage),
      total_tokens: usage.total,
      verified,
      ...(unverifiedReason && { unverified_reason: unverifiedReason }),
    },
    usedCUMilli: usedMilliCu,
    ...(paidBeforeMilliCu > 0 && { paidBeforeCUMilli: paidBeforeMilliCu }),
    recomputedCUMilli: recomputedCost(report, pricing, paidBeforeMilliCu),
    verified,
    ...(unverifiedReason && { unverifiedReason }),
    checks,
    finishReason,
    ...(error !== undefined && { error }),
    ...(errorCode !== undefined && { errorCode }),
    ...(contextExceeded && { contextExceeded }),
    report,
    signedReport,
    pricing,
  };
}

async function verifyReport(
  { channel, attested, evidence, hello }: OpenSession,
  { clock, memory }: Settings,
  { rid, usage }: DoneFrame,
  signed: SignedReport | undefined,
): Promise<ReportVerdict> {
  const { notAfter } = attested.keyset;
  return verifyUsageReport(webSuite, signed, {
    ...sessionExpectation(attested, hello),
    evidence: evidence.verified ? "accepted" : "simulated",
    now: Math.floor(clock.now() / 1000),
    exchange: channel.watch.take(rid),
    usage,
    claimCounter: (digest, ctr) => memory.counters.claim(digest, ctr, notAfter),
  });
}

/** A report whose coefficient is above the maximum in `hello` is refused, even if its signature is valid. */
function checkCoefficient(verdict: ReportVerdict, { maxCoefficient }: Settings): ReportVerdict {
  const { report, checks } = verdict;
  if (maxCoefficient === undefined || report === undefined) return verdict;
  const name = "coefficient";
  if (report.coefficient <= maxCoefficient) {
    return { ...verdict, checks: [...checks, { name, result: "pass" }] };
  }
  const why = `the coefficient ${report.coefficient} is above the maximum ${maxCoefficient}`;
  return {
    ...verdict,
    verified: false,
    unverifiedReason: verdict.unverifiedReason ?? "policy",
    checks: [...checks, { name, result: "fail", why }],
  };
}

function recomputedCost(
  report: ReportVerdict["report"],
  pricing: StreamPricing | undefined,
  paidBeforeMilliCu: number,
): number | undefined {
  if (report === undefined || pricing === undefined) return undefined;
  return recomputeCost(report, pricing) - paidBeforeMilliCu;
}
