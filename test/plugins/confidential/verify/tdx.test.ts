/** TDX quotes: real ones, and simulated ones that were changed and signed again. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { fromBase64, sha256Hex } from "../../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readTdxQuote, tdxImageHash } from "../../../../plugins/confidential/verify/tdx-quote.ts";
import type { TdReport } from "../../../../plugins/confidential/verify/tdx-quote.ts";
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
import { createPki } from "../../../../plugins/confidential/evidence/simulated-pki.ts";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import type { VerificationReport } from "../../../../plugins/confidential/verify/report.ts";
import { readTdxCollateral } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import type { TcbInfo } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import { moduleFault } from "../../../../plugins/confidential/verify/tdx-module.ts";

const imageHash = "b260fa9168ca9f28e7f15f128a45ac31c419705b31a60feac30b322ee06bc752";
const real = { imageHashes: [imageHash] };

describe("a real TDX quote", { skip }, () => {
  test("is verified at its time with Intel's root, without other settings", async () => {
    const { quote, collateral, now, reportData } = realTdx();
    const report = await verifyEvidence(tdxEvidence(quote, collateral), { reportData }, real, now);
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
      const report = await verifyEvidence(evidence, { reportData: wrong }, real, now);
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
    const named = { ...real, mrseam: [mrseam], platforms, minTcbEvaluation: 17 };
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
      { ...real, allowSimulated: true, simulatedRoots, treatSimulatedAsVerified: true },
      now,
    );
    assert.deepEqual(failures(report), ["not_simulated"]);
    assert.equal(report.assurance, "none");
    assert.equal(report.imageHash, undefined, "it was not even read");
  });
});

const now = Date.UTC(2026, 10, 21);
const reportData = new Uint8Array(64).fill(8);
const seed = new Uint8Array(32).fill(1);
const pki = createPki(seed);
const platform = await createSimulatedPlatform(seed);
const policy = {
  imageHashes: "any",
  allowSimulated: true,
  simulatedRoots: [platform.root],
} as const;

/** Offset of the quoting enclave's report from the end of the bytes that the attestation key signs. */
const qeReportOffset = 4 + 64 + 64 + 6;

/** Verifies a quote that `change` modified and that was then signed again, so that only the change can be wrong. */
async function verifySigned(
  version: 4 | 5,
  change: (quote: Bytes, qeReport: Bytes) => void,
): Promise<VerificationReport> {
  const evidence = platform.evidence(reportData, now, { version });
  const quote = fromBase64(evidence.quote);
  assert.ok(quote);
  const signedLength = version === 5 ? 54 + 648 : 48 + 584;
  const at = signedLength + qeReportOffset;
  const qeReport = quote.subarray(at, at + 384);
  change(quote, qeReport);
  quote.set(pki.attestation.sign(quote.subarray(0, signedLength)), signedLength + 4);
  quote.set(pki.pck.key.sign(qeReport), at + 384);
  const changed = { ...evidence, quote: Buffer.from(quote).toString("base64") };
  return verifyEvidence(changed, { reportData }, policy, now);
}

describe("a quote with valid signatures", () => {
  test("is accepted without a change", async () => {
    for (const version of [4, 5] as const) {
      const report = await verifySigned(version, () => {});
      assert.equal(report.assurance, "simulated");
    }
  });

  test("fails if its quoting enclave is from another vendor", async () => {
    const report = await verifySigned(4, (quote) => quote.fill(0xab, 12, 28));
    assert.deepEqual(failures(report), ["not_simulated", "qe_vendor"]);
    assert.equal(report.assurance, "none");
  });

  test("fails if a service TD is bound to the TD", async () => {
    const report = await verifySigned(5, (quote) => quote.fill(1, 54 + 600, 54 + 601));
    assert.ok(failures(report).includes("service_td"));
    assert.equal(report.assurance, "none");
  });

  test("fails if the enclave's report binds another attestation key", async () => {
    const report = await verifySigned(4, (_quote, qeReport) => qeReport.fill(0, 320, 352));
    assert.ok(failures(report).includes("qe_report"));
    assert.equal(report.assurance, "none");
  });

  test("fails if the enclave does not match the QE identity", async () => {
    // MRSIGNER, ISVPRODID, ISVSVN, the debug bit of ATTRIBUTES.
    const changes = [
      (qeReport: Bytes) => qeReport.fill(0, 128, 160),
      (qeReport: Bytes) => qeReport.fill(9, 256, 257),
      (qeReport: Bytes) => qeReport.fill(1, 258, 259),
      (qeReport: Bytes) => qeReport.fill(0x13, 48, 49),
    ];
    for (const change of changes) {
      const report = await verifySigned(4, (_quote, qeReport) => void change(qeReport));
      assert.deepEqual(failures(report), ["not_simulated", "dcap_qvl", "tcb_status"]);
      assert.equal(report.assurance, "none");
    }
  });

  test("fails when its TDX module has a version or a signer that the TCB info does not know", async () => {
    // The quote has module version 1 in byte 1 of TEE_TCB_SVN.
    const version = await verifySigned(4, (quote) => quote.fill(2, 49, 50));
    assert.deepEqual(failures(version), ["not_simulated", "tdx_module"]);
    const signer = await verifySigned(4, (quote) => quote.fill(1, 48 + 64, 48 + 65));
    assert.deepEqual(failures(signer), ["not_simulated", "tdx_module"]);
    const attributes = await verifySigned(4, (quote) => quote.fill(1, 48 + 112, 48 + 113));
    assert.deepEqual(failures(attributes), ["not_simulated", "tdx_module"]);
  });
});

describe("a TDX module", () => {
  const evidence = platform.evidence(reportData, now);
  const read = readTdxCollateral(evidence.collateral);
  const quote = readTdxQuote(fromBase64(evidence.quote) ?? new Uint8Array(0));
  assert.ok(typeof read !== "string" && quote);
  const known = read.tcbInfo;
  const fault = (changes: Partial<TdReport>, tcbInfo: TcbInfo = known): string | undefined =>
    moduleFault({ ...quote.body, ...changes }, tcbInfo, policy);
  const svn = (isvsvn: number, version: number): Pick<TdReport, "teeTcbSvn"> => ({
    teeTcbSvn: Uint8Array.of(isvsvn, version, ...new Uint8Array(14)),
  });

  test("without a version has the state of the platform", () => {
    assert.equal(fault(svn(0, 0)), undefined);
  });

  test("with a version has the status of the best level that it reaches", () => {
    const levels = [
      { isvsvn: 5, status: "UpToDate", advisories: [] },
      { isvsvn: 3, status: "OutOfDate", advisories: ["INTEL-SA-9"] },
    ];
    const modules = known.modules.map((module) =>
      module.id === undefined ? module : { ...module, levels },
    );
    const tcbInfo = { ...known, modules };
    assert.equal(fault(svn(7, 1), tcbInfo), undefined);
    assert.equal(fault(svn(5, 1), tcbInfo), undefined);
    assert.equal(fault(svn(4, 1), tcbInfo), "OutOfDate (INTEL-SA-9)");
    assert.match(fault(svn(2, 1), tcbInfo) ?? "", /no level/);
    assert.match(fault(svn(5, 0x1a), tcbInfo) ?? "", /does not list the module TDX_1A/);
  });

  test("may differ only in the attributes that the mask allows", () => {
    const seamAttributes = Uint8Array.of(1, 0, 0, 0, 0, 0, 0, 0);
    assert.match(fault({ seamAttributes }) ?? "", /attributes/);
    const modules = known.modules.map((module) => ({
      ...module,
      attributesMask: Uint8Array.of(0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
    }));
    assert.equal(fault({ seamAttributes }, { ...known, modules }), undefined);
  });
});

test("the platform has the root of its seed", async () => {
  const root = fromBase64(platform.root);
  assert.ok(root);
  assert.equal(await sha256Hex(root), await sha256Hex(pki.root.certificate));
});

const quotes = ([4, 5] as const).map((version) => {
  const quote = fromBase64(platform.evidence(reportData, now, { version }).quote);
  assert.ok(quote);
  return quote;
});

describe("a quote from an untrusted sender", () => {
  test("is read if it is complete and has version 4 or 5", () => {
    for (const quote of quotes) {
      const read = readTdxQuote(quote);
      assert.equal(read?.version, quote[0]);
      assert.equal(read?.pckChain.length, 3);
      assert.deepEqual(read?.body.reportData, reportData);
      for (let length = 0; length < quote.length; length++) {
        assert.equal(readTdxQuote(quote.subarray(0, length)), undefined, `${length} bytes`);
      }
      const padded = new Uint8Array(quote.length + 70);
      padded.set(quote);
      assert.ok(readTdxQuote(padded));
      padded[padded.length - 1] = 1;
      assert.equal(readTdxQuote(padded), undefined);
    }
  });
});
