/** Tests of the cache of verified evidence, with a manual clock, and of the list of checks. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { createChecklist } from "../../../../plugins/confidential/verify/checklist.ts";
import { createEvidenceVerifier } from "../../../../plugins/confidential/verify/evidence-verifier.ts";

const now = Date.UTC(2026, 10, 21);
const reportData = new Uint8Array(64).fill(6);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const policy = {
  imageHashes: [platform.imageHash],
  allowSimulated: true,
  simulatedRoots: [platform.root],
};

describe("accepted evidence", () => {
  test("is not verified again, and gets the same report", async () => {
    const verifier = createEvidenceVerifier();
    const evidence = platform.evidence(reportData, now);
    const first = await verifier.verify(evidence, { reportData }, policy, now);
    assert.equal(first.assurance, "simulated");
    const copy: unknown = structuredClone(evidence);
    assert.equal(await verifier.verify(copy, { reportData }, { ...policy }, now + 1000), first);
  });

  test("is verified again after an hour, and when the clock goes back", async () => {
    const verifier = createEvidenceVerifier();
    const evidence = platform.evidence(reportData, now);
    const first = await verifier.verify(evidence, { reportData }, policy, now);
    const back = await verifier.verify(evidence, { reportData }, policy, now - 1);
    assert.notEqual(back, first);
    assert.equal(await verifier.verify(evidence, { reportData }, policy, now + 3_599_998), back);
    assert.notEqual(await verifier.verify(evidence, { reportData }, policy, now + 3_599_999), back);
  });

  test("is verified again for other evidence, report data or policies", async () => {
    const verifier = createEvidenceVerifier();
    const evidence = platform.evidence(reportData, now);
    assert.equal(
      (await verifier.verify(evidence, { reportData }, policy, now)).assurance,
      "simulated",
    );
    const other = { reportData: new Uint8Array(64) };
    assert.equal((await verifier.verify(evidence, other, policy, now)).assurance, "none");
    const strict = { ...policy, imageHashes: [] };
    assert.equal((await verifier.verify(evidence, { reportData }, strict, now)).assurance, "none");
    const { pck_crl: _pck, ...collateral } = evidence.collateral ?? {};
    const changed = { ...evidence, collateral };
    assert.equal((await verifier.verify(changed, { reportData }, policy, now)).assurance, "none");
  });
});

test("a check that was never reached counts as failed, and a failure stays", () => {
  const checks = createChecklist(["a", "b"]);
  checks.record("a", undefined);
  assert.equal(checks.hasPassed(), false);
  checks.skip("b", "not asked for");
  assert.equal(checks.hasPassed(), true);
  assert.equal(checks.record("a", "broken"), false);
  assert.equal(checks.record("a", undefined), false);
  assert.equal(checks.hasPassed(), false);
});

test("a failure is never cached", async () => {
  const verifier = createEvidenceVerifier();
  const evidence = platform.evidence(reportData, now, { issuedAt: now + 1000 });
  const early = await verifier.verify(evidence, { reportData }, policy, now);
  assert.equal(early.assurance, "none");
  const again = await verifier.verify(evidence, { reportData }, policy, now);
  assert.notEqual(again, early);
  const later = await verifier.verify(evidence, { reportData }, policy, now + 2000);
  assert.equal(later.assurance, "simulated");
});
