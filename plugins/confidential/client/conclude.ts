/** What the client makes of an answer's end: its own verdict over the report, and the cost reckoned again. */
import { accountOf, judgeReport } from "../protocol/report-verdict.ts";
import type { ReportVerdict, SignedReport } from "../protocol/report-verdict.ts";
import { usageOf } from "../protocol/text-frames.ts";
import type { DoneFrame } from "../protocol/text-frames.ts";
import type { FinalAnswer } from "./answer.ts";
import { readPricing, recomputeCost } from "./cost.ts";
import type { StreamPricing } from "./cost.ts";
import type { OpenSession } from "./attempt.ts";
import type { Settings } from "./options.ts";
import { webSuite } from "./web-crypto.ts";

/** What the last frame says, which the enclave sealed. */
export interface Final {
  readonly finishReason: string;
  readonly error: string | undefined;
}

/** After the last frame and `done`. */
export async function conclude(
  open: OpenSession,
  settings: Settings,
  done: DoneFrame,
  { finishReason, error }: Final,
): Promise<FinalAnswer> {
  const { report: bytes, sig, usage, usedCuMilli, paidBeforeCuMilli } = done;
  const signedReport =
    bytes === undefined || sig === undefined ? undefined : { report: bytes, sig };
  const verdict = limitCoefficient(await judge(open, settings, done, signedReport), settings);
  const { verified, unverifiedReason, checks, report } = verdict;
  const pricing = readPricing(done.pricing);
  return {
    // The parts as told; total_tokens is what was told, too.
    usage: {
      ...usageOf(usage),
      total_tokens: usage.total,
      verified,
      ...(unverifiedReason && { unverified_reason: unverifiedReason }),
    },
    usedCUMilli: usedCuMilli,
    ...(paidBeforeCuMilli > 0 && { paidBeforeCUMilli: paidBeforeCuMilli }),
    recomputedCUMilli: costOf(report, pricing, paidBeforeCuMilli),
    verified,
    ...(unverifiedReason && { unverifiedReason }),
    checks,
    finishReason,
    ...(error !== undefined && { error }),
    report,
    signedReport,
    pricing,
  };
}

async function judge(
  { channel, attested, evidence, hello }: OpenSession,
  { clock, memory }: Settings,
  { rid, usage }: DoneFrame,
  signed: SignedReport | undefined,
): Promise<ReportVerdict> {
  const { notAfter } = attested.keyset;
  return judgeReport(webSuite, signed, {
    ...accountOf(attested, hello),
    evidence: evidence.verified ? "accepted" : "simulated",
    now: Math.floor(clock.now() / 1000),
    exchange: channel.watch.take(rid),
    usage,
    claimCounter: (digest, ctr) => memory.counters.claim(digest, ctr, notAfter),
  });
}

/** A report above the coefficient that `hello` allowed is against the policy, however well it is signed. */
function limitCoefficient(verdict: ReportVerdict, { maxCoefficient }: Settings): ReportVerdict {
  const { report, checks } = verdict;
  if (maxCoefficient === undefined || report === undefined) return verdict;
  const name = "coefficient";
  if (report.coefficient <= maxCoefficient) {
    return { ...verdict, checks: [...checks, { name, result: "pass" }] };
  }
  const why = `${report.coefficient} is above ${maxCoefficient}`;
  return {
    ...verdict,
    verified: false,
    unverifiedReason: verdict.unverifiedReason ?? "policy",
    checks: [...checks, { name, result: "fail", why }],
  };
}

function costOf(
  report: ReportVerdict["report"],
  pricing: StreamPricing | undefined,
  paidBeforeCuMilli: number,
): number | undefined {
  if (report === undefined || pricing === undefined) return undefined;
  return recomputeCost(report, pricing) - paidBeforeCuMilli;
}
