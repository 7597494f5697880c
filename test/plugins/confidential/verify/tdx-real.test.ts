import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fromBase64 } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readTdxQuote, tdxImageHash } from "../../../../plugins/confidential/verify/tdx-quote.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import {
  failures,
  outdatedTdx,
  realBytes,
  realTdx,
  resultOf,
  skipWithoutShared as skip,
  tdxEvidence,
} from "./real-quotes.ts";
import { withFlippedBit } from "../protocol/session.ts";

const imageHash = "b260fa9168ca9f28e7f15f128a45ac31c419705b31a60feac30b322ee06bc752";
const policy = { imageHashes: [imageHash] };

describe("a real TDX quote", { skip }, () => {
  test("is verified at its time with Intel's root, without other settings", async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const report = await verifyEvidence(
      tdxEvidence(quote, collateral),
      { reportData },
      policy,
      now,
    );
    assert.deepEqual(failures(report), []);
    assert.equal(report.verified, true);
    assert.equal(report.assurance, "tdx");
    assert.equal(report.imageHash, imageHash);
    assert.equal(report.reportData, Buffer.from(reportData).toString("hex"));
    assert.deepEqual(report.tcb, { status: "UpToDate", advisories: [], evaluation: 17 });
    assert.equal(report.platform, "811dca2a26b952e85bb6448b097ba4fd");
    assert.equal(report.validUntil, Date.parse("2025-07-19T10:00:35Z"));
  });

  test("binds only its own report data", async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const evidence = tdxEvidence(quote, collateral);
    for (const wrong of [
      withFlippedBit(reportData, 63),
      new Uint8Array(64),
      reportData.slice(0, 32),
    ]) {
      const report = await verifyEvidence(evidence, { reportData: wrong }, policy, now);
      assert.deepEqual(failures(report), ["report_data"]);
      assert.equal(report.assurance, "none");
    }
  });

  test("has a TDX module, a machine and a TCB evaluation number that a policy can restrict", async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const evidence = tdxEvidence(quote, collateral);
    const mrseam =
      "5b38e33a6487958b72c3c12a938eaa5e3fd4510c51aeeab58c7d5ecee41d7c436489d6c8e4f92f160b7cad34207b00c1";
    const platforms = ["811DCA2A26B952E85BB6448B097BA4FD"];
    const named = { ...policy, mrseam: [mrseam], platforms, minTcbEvaluation: 17 };
    const report = await verifyEvidence(evidence, { reportData }, named, now);
    assert.equal(report.verified, true);
    assert.deepEqual(
      report.checks.filter(({ result }) => result !== "pass"),
      [],
    );
    const cases = [
      [{ ...named, mrseam: ["00".repeat(48)] }, "mrseam"],
      [{ ...named, platforms: ["00".repeat(16)] }, "platform"],
      [{ ...named, platforms: [] }, "platform"],
      [{ ...named, minTcbEvaluation: 18 }, "tcb_evaluation"],
    ] as const;
    for (const [other, name] of cases) {
      const refused = await verifyEvidence(evidence, { reportData }, other, now);
      assert.deepEqual(failures(refused), [name]);
    }
  });
});

describe("other real TDX quotes", { skip }, () => {
  test("an outdated platform fails because of its TCB, although its signatures are valid", async () => {
    const { quote, collateral, now, reportData } = outdatedTdx();
    const evidence = tdxEvidence(quote, collateral);
    const report = await verifyEvidence(evidence, { reportData }, { imageHashes: "any" }, now);
    assert.deepEqual(failures(report), ["dcap_qvl", "tcb_status"]);
    assert.equal(resultOf(report, "quote_signature"), "pass");
    assert.equal(report.assurance, "none");
  });

  test("the image hash is recomputed from the registers", async () => {
    const quote = readTdxQuote(realBytes("tdx_quote_v4_second.dat"));
    assert.ok(quote);
    assert.equal(
      await tdxImageHash(quote.body),
      "04b3afd931d28680af91a15b09d672c40ad6b141f7f9089a8d67d595220f7436",
    );
  });

  test("a real quote is not accepted as simulated, whatever the caller allows", async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const root = readTdxQuote(quote)?.pckChain[2]?.raw;
    assert.ok(root);
    const simulatedRoots = [Buffer.from(root).toString("base64")];
    assert.ok(fromBase64(simulatedRoots[0] ?? ""));
    const report = await verifyEvidence(
      { ...tdxEvidence(quote, collateral), tee_type: "simulated", simulated: true },
      { reportData },
      { ...policy, allowSimulated: true, simulatedRoots, treatSimulatedAsVerified: true },
      now,
    );
    assert.deepEqual(failures(report), ["not_simulated"]);
    assert.equal(report.assurance, "none");
    assert.equal(report.imageHash, undefined, "it was not even read");
  });
});
