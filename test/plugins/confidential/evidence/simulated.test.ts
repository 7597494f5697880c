/** Tests of the algorithm that verifies simulated evidence, and of the cache of verified evidence. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import type { SimulatedState } from "../../../../plugins/confidential/evidence/simulated.ts";
import type { VerificationPolicy } from "../../../../plugins/confidential/verify/policy.ts";
import type { VerificationReport } from "../../../../plugins/confidential/verify/report.ts";
import type { TdxCollateral } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import { failures, resultOf } from "../verify/real-quotes.ts";
import { createChecklist } from "../../../../plugins/confidential/verify/checklist.ts";
import { createEvidenceVerifier } from "../../../../plugins/confidential/verify/evidence-verifier.ts";

const now = Date.UTC(2026, 10, 21, 12);
const day = 24 * 3_600_000;
const reportData = new Uint8Array(64).fill(9);
const platform = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const other = await createSimulatedPlatform(new Uint8Array(32).fill(2));
const policy: VerificationPolicy = {
  imageHashes: [platform.imageHash],
  allowSimulated: true,
  simulatedRoots: [platform.root],
};

/** Verifies evidence for `reportData` after a conversion to JSON, as on the wire. */
function verify(
  state: SimulatedState = {},
  changes: Partial<VerificationPolicy> = {},
  at: number = now,
): Promise<VerificationReport> {
  const evidence: unknown = JSON.parse(JSON.stringify(platform.evidence(reportData, now, state)));
  return verifyEvidence(evidence, { reportData }, { ...policy, ...changes }, at);
}

function assertOnlySimulated(report: VerificationReport): void {
  assert.deepEqual(failures(report), ["not_simulated"]);
  assert.equal(report.assurance, "simulated");
  assert.equal(report.verified, false);
}

/** Asserts that `names` failed, in addition to the check that simulated evidence always fails. */
function assertFails(report: VerificationReport, ...names: readonly string[]): void {
  assert.deepEqual(failures(report), ["not_simulated", ...names]);
  assert.equal(report.assurance, "none");
  assert.equal(report.verified, false);
}

describe("simulated evidence", () => {
  test("passes every other check of the production path, and is still not verified", async () => {
    for (const version of [4, 5] as const) {
      const report = await verify({ version });
      assertOnlySimulated(report);
      assert.equal(report.teeType, "simulated");
      assert.equal(report.imageHash, platform.imageHash);
      assert.equal(resultOf(report, "dcap_qvl"), "pass");
    }
  });

  test("is verified only if the caller treats it as verified", async () => {
    const report = await verify({}, { treatSimulatedAsVerified: true });
    assert.equal(report.verified, true);
    assert.equal(report.assurance, "simulated");
    assert.equal(resultOf(report, "not_simulated"), "skipped");
    const bad = await verify({ isDebug: true }, { treatSimulatedAsVerified: true });
    assert.equal(bad.verified, false);
    assert.equal(bad.assurance, "none");
  });

  test("is refused without the opt-in, without a root, or with another root", async () => {
    const cases: readonly Partial<VerificationPolicy>[] = [
      { allowSimulated: false },
      { simulatedRoots: [] },
      { simulatedRoots: ["", "AAAA", "not base64"] },
    ];
    for (const changes of cases) {
      const report = await verify({}, { ...changes, treatSimulatedAsVerified: true });
      assert.deepEqual(failures(report), ["not_simulated"]);
      assert.equal(report.assurance, "none");
      assert.equal(report.verified, false);
    }
    const report = await verify(
      {},
      { simulatedRoots: [other.root], treatSimulatedAsVerified: true },
    );
    assert.equal(report.assurance, "none");
    assert.equal(resultOf(report, "pck_chain"), "fail");
  });

  test("cannot pass for hardware with another label or without one", async () => {
    const evidence = platform.evidence(reportData, now);
    const asTdx = { ...evidence, tee_type: "tdx", simulated: undefined };
    const everything = { ...policy, treatSimulatedAsVerified: true };
    const report = await verifyEvidence(asTdx, { reportData }, everything, now);
    assert.equal(report.assurance, "none");
    assert.deepEqual(failures(report), [
      "pck_chain",
      "tcb_info_signature",
      "qe_identity_signature",
      "dcap_qvl",
      "tcb_status",
    ]);
    for (const contradiction of [
      { ...evidence, tee_type: "tdx" },
      { ...evidence, simulated: false },
      { ...evidence, tee_type: "sev-snp" },
      { ...evidence, tee_type: "none" },
    ]) {
      const refused = await verifyEvidence(contradiction, { reportData }, everything, now);
      assert.deepEqual(failures(refused), ["evidence"]);
      assert.equal(refused.assurance, "none");
    }
  });

  test("has a marker in RTMR3, and is refused without it", async () => {
    const report = await verify(
      { isUnmarked: true },
      { imageHashes: "any", treatSimulatedAsVerified: true },
    );
    assert.deepEqual(failures(report), ["not_simulated"]);
    assert.equal(report.assurance, "none");
    assert.equal(report.verified, false);
  });
});

describe("the checks of a platform in a bad state", () => {
  test("a TD that can be debugged fails", async () => {
    assertFails(await verify({ isDebug: true }), "dcap_qvl", "tcb_status", "td_attributes");
  });

  test("a TCB status other than UpToDate fails", async () => {
    for (const tcbStatus of [
      "OutOfDate",
      "OutOfDateConfigurationNeeded",
      "ConfigurationNeeded",
      "ConfigurationAndSWHardeningNeeded",
    ]) {
      assertFails(await verify({ tcbStatus }), "tcb_status");
    }
    assertFails(await verify({ tcbStatus: "Revoked" }), "dcap_qvl", "tcb_status");
    assertFails(await verify({ tcbStatus: "Splendid" }), "dcap_qvl", "tcb_status");
  });

  test("SWHardeningNeeded passes only if the policy lists all advisories", async () => {
    const state = { tcbStatus: "SWHardeningNeeded", advisories: ["INTEL-SA-1", "INTEL-SA-2"] };
    assertFails(await verify(state), "tcb_status");
    assertFails(await verify(state, { advisories: ["INTEL-SA-1"] }), "tcb_status");
    const named = await verify(state, { advisories: ["INTEL-SA-1", "INTEL-SA-2"] });
    assertOnlySimulated(named);
    assert.equal(named.tcb?.status, "SWHardeningNeeded");
    assert.deepEqual(named.tcb?.advisories, ["INTEL-SA-1", "INTEL-SA-2"]);
    const nameless = { tcbStatus: "SWHardeningNeeded", advisories: [] };
    assertFails(await verify(nameless, { advisories: ["INTEL-SA-1"] }), "tcb_status");
    const outdated = { tcbStatus: "OutOfDate", advisories: ["INTEL-SA-1"] };
    assertFails(await verify(outdated, { advisories: ["INTEL-SA-1"] }), "tcb_status");
  });

  test("a revoked machine, authority or signer fails", async () => {
    for (const role of ["pck", "authority", "signer"] as const) {
      const report = await verify({ revoked: [role] });
      assert.equal(resultOf(report, "revocation"), "fail", role);
      assert.equal(resultOf(report, "root_crl"), "pass");
      assert.equal(report.assurance, "none");
    }
  });

  test("collateral that is expired, not valid yet, too old or below the minimum evaluation number fails", async () => {
    const expired = await verify({ issuedAt: now - 2 * day, lifetimeMs: day });
    for (const name of ["collateral_dates", "root_crl", "pck_crl", "dcap_qvl"]) {
      assert.equal(resultOf(expired, name), "fail", name);
    }
    const early = await verify({ issuedAt: now + day });
    assert.equal(resultOf(early, "collateral_dates"), "fail");
    assert.equal(resultOf(early, "root_crl"), "fail");
    const old = { issuedAt: now - 31 * day, lifetimeMs: 60 * day };
    assertFails(await verify(old), "collateral_age");
    assertOnlySimulated(await verify(old, { maxCollateralAgeMs: 32 * day }));
    assertFails(await verify({ tcbEvaluation: 17 }, { minTcbEvaluation: 18 }), "tcb_evaluation");
    assertOnlySimulated(await verify({ tcbEvaluation: 18 }, { minTcbEvaluation: 18 }));
  });
});

describe("revocation lists", () => {
  const good = platform.evidence(reportData, now).collateral;
  assert.ok(good);
  const withLists = (lists: Partial<TdxCollateral>): Promise<VerificationReport> => {
    const evidence = { ...platform.evidence(reportData, now), collateral: { ...good, ...lists } };
    return verifyEvidence(evidence, { reportData }, policy, now);
  };
  const stale = platform.evidence(reportData, now - 40 * day).collateral;
  const foreign = other.evidence(reportData, now).collateral;
  const bad: Readonly<Record<string, Pick<TdxCollateral, "pck_crl" | "root_ca_crl"> | undefined>> =
    {
      empty: { pck_crl: "", root_ca_crl: "" },
      garbage: { pck_crl: "30820102aabb", root_ca_crl: "30820102aabb" },
      expired: stale,
      foreign,
    };
  for (const [kind, lists] of Object.entries(bad)) {
    test(`an ${kind} list fails, and the check revocation is not reached`, async () => {
      assert.ok(lists);
      assertNoWord(await withLists({ pck_crl: lists.pck_crl }), "pck_crl");
      assertNoWord(await withLists({ root_ca_crl: lists.root_ca_crl }), "root_crl");
    });
  }

  function assertNoWord(report: VerificationReport, name: string): void {
    assertFails(report, name);
    assert.equal(resultOf(report, "revocation"), "skipped");
  }

  test("the list of one issuer is not accepted for the other", async () => {
    const { pck_crl: pck, root_ca_crl: root } = good;
    assertFails(await withLists({ pck_crl: root, root_ca_crl: pck }), "root_crl", "pck_crl");
  });
});

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
    const otherBinding = { reportData: new Uint8Array(64) };
    assert.equal((await verifier.verify(evidence, otherBinding, policy, now)).assurance, "none");
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
