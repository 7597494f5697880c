/**
 * Caches the reports of accepted evidence, because a keyset presents the same evidence for up to an hour. Failures are
 * not cached.
 */
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { toHex } from "./binary-text.ts";
import type { VerificationPolicy } from "./policy.ts";
import type { VerificationReport } from "./report.ts";
import { verifyEvidence, type ExpectedEvidence } from "./verify.ts";

export interface EvidenceVerifier {
  /** Parameters and result are those of `verifyEvidence`. */
  verify(
    evidence: unknown,
    expected: ExpectedEvidence,
    policy: VerificationPolicy,
    now: number,
  ): Promise<VerificationReport>;
}

interface CachedReport {
  readonly report: VerificationReport;
  /** The report is valid from `from` (inclusive) until `until` (exclusive), in milliseconds since 1970. */
  readonly from: number;
  readonly until: number;
}

/** Maximum age of a cached report. A report is never used after its `validUntil`. */
const maxAgeMs = 3_600_000;

/** `entries`: maximum number of cached reports. */
export function createEvidenceVerifier(entries = 64): EvidenceVerifier {
  const remembered = new BoundedMap<string, CachedReport>(entries);
  return {
    async verify(evidence, expected, policy, now) {
      const key = keyOf(evidence, expected, policy);
      const known = remembered.get(key);
      if (known !== undefined && known.from <= now && now < known.until) return known.report;
      remembered.delete(key);
      const report = await verifyEvidence(evidence, expected, policy, now);
      if (report.assurance === "none" || report.validUntil === undefined) return report;
      remembered.set(key, {
        report,
        from: now,
        until: Math.min(now + maxAgeMs, report.validUntil),
      });
      return report;
    },
  };
}

/**
 * The cache key: everything that a report depends on, except the time. The key contains the whole evidence, because
 * computing a hash costs more than storing it.
 */
function keyOf(evidence: unknown, expected: ExpectedEvidence, policy: VerificationPolicy): string {
  return JSON.stringify([evidence, toHex(expected.reportData), policy]);
}
