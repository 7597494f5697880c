/**
 * Remembers evidence that passed, since the same keyset comes with the same evidence for up to an hour. Failures are
 * not kept.
 */
import { toHex } from "./binary-text.ts";
import type { VerificationPolicy } from "./policy.ts";
import type { VerificationReport } from "./report.ts";
import { verifyEvidence } from "./verify.ts";
import type { ExpectedEvidence, HardwareRoots } from "./verify.ts";

export interface EvidenceVerifier {
  /** As `verifyEvidence`. */
  verify(
    evidence: unknown,
    expected: ExpectedEvidence,
    policy: VerificationPolicy,
    now: number,
  ): Promise<VerificationReport>;
}

interface CachedReport {
  readonly report: VerificationReport;
  /** Milliseconds since 1970: holds from `from`, and no longer at `until`. */
  readonly from: number;
  readonly until: number;
}

export interface EvidenceVerifierOptions {
  /** 64 unless given. */
  readonly entries?: number;
  /** A report is given again for an hour unless given, and never past what it rests on (`validUntil`). */
  readonly maxAgeMs?: number;
  readonly roots?: HardwareRoots;
}

/** A verifier with a memory of its own, least recently used first out. */
export function createEvidenceVerifier(options: EvidenceVerifierOptions = {}): EvidenceVerifier {
  const { entries = 64, maxAgeMs = 3_600_000, roots } = options;
  const remembered = new Map<string, CachedReport>();
  return {
    async verify(evidence, expected, policy, now) {
      const key = keyOf(evidence, expected, policy);
      const known = remembered.get(key);
      remembered.delete(key);
      if (known !== undefined && known.from <= now && now < known.until) {
        remembered.set(key, known);
        return known.report;
      }
      const report = await verifyEvidence(evidence, expected, policy, now, roots);
      if (report.assurance === "none" || report.validUntil === undefined) return report;
      remembered.set(key, {
        report,
        from: now,
        until: Math.min(now + maxAgeMs, report.validUntil),
      });
      const oldest = remembered.keys().next().value;
      if (remembered.size > entries && oldest !== undefined) remembered.delete(oldest);
      return report;
    },
  };
}

/**
 * Everything that a report depends on but the time. As long as the evidence: a hash of it costs more than keeping it.
 */
function keyOf(evidence: unknown, expected: ExpectedEvidence, policy: VerificationPolicy): string {
  return JSON.stringify([evidence, toHex(expected.reportData), policy]);
}
