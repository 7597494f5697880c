/**
 * Quotes of real hardware through `sluice connect`. Their report data binds the keys of other enclaves, so here they are
 * replayed evidence: the session is refused, and every other check shows its result.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { describeVerification } from "../../../../plugins/confidential/commands/describe-verification.ts";
import type { SealedNetworks } from "../../../../plugins/confidential/sealed-networks/sealed-networks.ts";
import {
  verificationOf,
  type Verification,
} from "../../../../plugins/confidential/sealed-networks/verification.ts";
import type { AttestationEvidence } from "../../../../plugins/confidential/verify/evidence.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { realSnp, realTdx, skipWithoutShared as skip, tdxEvidence } from "../verify/real-quotes.ts";
import { secret, startLocalGateway, type LocalGateway } from "./local-gateway.ts";

const inTime = { timeout: 30_000, skip };
const image = "b260fa9168ca9f28e7f15f128a45ac31c419705b31a60feac30b322ee06bc752";

interface Quoted {
  readonly title: string;
  readonly evidence: () => AttestationEvidence;
  readonly now: () => number;
  readonly images: readonly string[] | "any";
  /** The checks that fail. */
  readonly failed: readonly string[];
  readonly prints: RegExp;
}

const quotes: readonly Quoted[] = [
  {
    title: "a TDX quote of another enclave",
    evidence: () => tdxEvidence(realTdx().quote, realTdx().collateral),
    now: () => realTdx().now,
    images: [image],
    failed: ["report_data"],
    prints:
      /machine +811dca2a.*firmware +UpToDate.*image +b260fa91.*passed +.*dcap_qvl.*image_hash/s,
  },
  {
    title: "a SEV-SNP report of a debuggable guest",
    evidence: realSnp,
    now: () => Date.UTC(2026, 10, 21),
    images: "any",
    failed: ["guest_policy", "report_data"],
    prints: /passed +vcek_chain.*passed +report_signature/s,
  },
];

async function refusedBy(local: LocalGateway): Promise<Verification> {
  // The service has this type.
  const sealed = local.gateway.use("sealed-networks") as SealedNetworks;
  return (await sealed.verify()) ?? assert.fail("nothing was verified");
}

describe("real evidence", () => {
  for (const { title, evidence, now, images, failed, prints } of quotes) {
    test(title, inTime, async (t) => {
      const local = await startLocalGateway(t, {
        at: now(),
        evidence: { image_hashes: images, sev_snp: { min_tcb: "any", require_crl: false } },
        script: { evidence, keyset: { notAfter: now() / 1000 + 3000 } },
      });
      const verification = await refusedBy(local);
      const found = verification.checks.filter(({ result }) => result === "fail");
      assert.deepEqual(
        found.map((check) => check.name),
        failed,
      );
      assert.match(describeVerification(verification), prints);
      const answer = await local.ask();
      assert.equal(answer.status, 502);
      assert.match(await answer.text(), /VERIFICATION_FAILED/);
      assert.equal(local.remote.frames, 0);
      assert.ok(!local.sent().includes(secret));
    });
  }

  test("a TDX quote of the session's own keys is printed as verified", inTime, async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const policy = { imageHashes: [image] };
    const expected = { reportData };
    const report = await verifyEvidence(tdxEvidence(quote, collateral), expected, policy, now);
    const { assurance, checks } = report;
    const about = { network: "confidential-alpha", model: "demo", termination: "worker" } as const;
    const shown = { ...about, assurance, evidence: report, keyset: "sha256:00", checks };
    const session = { ...shown, expiresAt: now + 3_600_000 };
    const text = describeVerification(verificationOf(session, "https://gateway.example", now));
    assert.match(text, /^verified: the answers come from an enclave that hardware attests\./);
    assert.match(text, /machine +tdx 811dca2a26b952e85bb6448b097ba4fd\n +firmware +UpToDate\n/);
    assert.match(text, new RegExp(`image +${image}`));
    assert.match(
      text,
      /since +2025-06-20.*until +2025-06-20T01:00:00\.000Z; checked again before/s,
    );
    assert.doesNotMatch(text, /^ +(failed|accepted) /m);
  });
});
