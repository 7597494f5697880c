import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { sha256Hex } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readPem } from "../../../../plugins/confidential/verify/certificate.ts";
import type { AttestationEvidence } from "../../../../plugins/confidential/verify/evidence.ts";
import type { VerificationPolicy } from "../../../../plugins/confidential/verify/policy.ts";
import type { VerificationReport } from "../../../../plugins/confidential/verify/report.ts";
import { amdRoots } from "../../../../plugins/confidential/verify/snp.ts";
import { verifyEvidence } from "../../../../plugins/confidential/verify/verify.ts";
import {
  failures,
  realBytes,
  realSnp,
  realText,
  resultOf,
  skipWithoutShared,
} from "./real-quotes.ts";
import { askSerial, chipId, createSnpPlatform, snpReportData } from "./snp-platform.ts";
import type { SnpChanges } from "./snp-platform.ts";

const now = Date.UTC(2026, 10, 21);
const day = 24 * 3_600_000;
const platform = await createSnpPlatform();
const imageHash = createHash("sha256")
  .update("snp-image/1\0")
  .update(new Uint8Array(48).fill(0x3e))
  .update(new Uint8Array(32).fill(0x40))
  .digest("hex");
/** A policy that opts out of the two checks that would otherwise need settings. */
const waived = { minTcb: "any", requireCrl: false } as const;
const policy: VerificationPolicy = { imageHashes: [imageHash], sevSnp: waived };

function verify(
  changes: SnpChanges = {},
  more: Partial<VerificationPolicy> = {},
  at: number = now,
): Promise<VerificationReport> {
  return verifyGiven(platform.evidence(changes), more, at);
}

function verifyGiven(
  evidence: AttestationEvidence,
  more: Partial<VerificationPolicy> = {},
  at: number = now,
): Promise<VerificationReport> {
  const expected = { reportData: snpReportData };
  return verifyEvidence(evidence, expected, { ...policy, ...more }, at, platform.roots);
}

function verifyBare(changes: SnpChanges): Promise<VerificationReport> {
  const expected = { reportData: snpReportData };
  const bare = { imageHashes: [imageHash] };
  return verifyEvidence(platform.evidence(changes), expected, bare, now, platform.roots);
}

function assertFails(report: VerificationReport, ...names: readonly string[]): void {
  assert.deepEqual(failures(report), names);
  assert.equal(report.assurance, "none");
  assert.equal(report.verified, false);
}

describe("a SEV-SNP report", () => {
  test("is verified with the certificate chain of its chip", async () => {
    const report = await verify();
    assert.deepEqual(failures(report), []);
    assert.equal(report.verified, true);
    assert.equal(report.assurance, "sev-snp");
    assert.equal(report.imageHash, imageHash);
    assert.equal(report.platform, Buffer.from(chipId).toString("hex"));
    assert.equal(report.validUntil, Date.UTC(2045, 0, 1));
    assert.equal(resultOf(report, "revocation"), "skipped");
  });

  test("of Turin has another TCB layout, and a chip id of eight bytes", async () => {
    const turin = await createSnpPlatform("Turin");
    const expected = { reportData: snpReportData };
    const minTcb = { Turin: { fmc: 2, bootloader: 3, tee: 1, snp: 8, microcode: 115 } };
    const named = { ...policy, sevSnp: { ...waived, minTcb } };
    const report = await verifyEvidence(turin.evidence(), expected, named, now, turin.roots);
    assert.deepEqual(failures(report), []);
    assert.equal(report.verified, true);
    const longer = turin.evidence({ report: { 0x1a8: Uint8Array.of(1) } });
    const refused = await verifyEvidence(longer, expected, named, now, turin.roots);
    assertFails(refused, "chip_id");
  });

  test("fails under any other root, including AMD's root of the product", async () => {
    const expected = { reportData: snpReportData };
    const evidence = platform.evidence();
    assertFails(await verifyEvidence(evidence, expected, policy, now), "vcek_chain");
    const asGenoa = platform.evidence({ vcek: { product: "Genoa-B1" } });
    assertFails(await verifyGiven(asGenoa), "vcek_chain");
  });

  test("fails if it is shorter or longer", async () => {
    const evidence = platform.evidence();
    const quote = Buffer.from(evidence.quote, "base64");
    for (const other of [quote.subarray(0, 1183), Buffer.concat([quote, Buffer.alloc(1)])]) {
      assert.deepEqual(
        failures(await verifyGiven({ ...evidence, quote: other.toString("base64") })).slice(0, 1),
        ["quote_format"],
      );
    }
  });

  test("of a guest that can be debugged or migrated, or without its reserved bit, fails", async () => {
    for (const bits of [0x0b, 0x07, 0x01]) {
      assertFails(await verify({ report: { 0x0a: Uint8Array.of(bits) } }), "guest_policy");
    }
  });

  test("from a lower privilege level fails unless the policy allows that level", async () => {
    const changes = { report: { 0x30: Uint8Array.of(2) } };
    assertFails(await verify(changes), "vmpl");
    assertFails(await verify(changes, { sevSnp: { ...waived, maxVmpl: 1 } }), "vmpl");
    assert.equal((await verify(changes, { sevSnp: { ...waived, maxVmpl: 2 } })).verified, true);
  });

  test("from provisional firmware fails, by TCB or by version", async () => {
    for (const at of [0x38, 0x1e8, 0x1e9, 0x1ea]) {
      const report = await verify({ report: { [at]: Uint8Array.of(0x77) } });
      assertFails(report, "provisional_firmware");
    }
  });

  test("is judged by the TCB in the VCEK, not by its own", async () => {
    const claims = { report: { 0x180: Uint8Array.of(3, 1, 0, 0, 0, 0, 8, 200) } };
    assertFails(await verify(claims), "tcb");
    const tcb = { bootloader: 3, tee: 1, snp: 7, microcode: 115 };
    assertFails(await verify({ vcek: { tcb } }), "tcb");
    const floor = (microcode: number): Partial<VerificationPolicy> => ({
      sevSnp: { ...waived, minTcb: { Milan: { microcode, snp: 8 } } },
    });
    const behind = await verify({}, floor(116));
    assertFails(behind, "tcb_minimum");
    assert.equal(behind.tcb?.status, "OutOfDate");
    const enough = await verify({}, floor(115));
    assert.equal(enough.verified, true);
    assert.equal(enough.tcb?.status, "UpToDate");
  });

  test("of another chip, of no chip, or of a masked chip fails", async () => {
    const other = new Uint8Array(64).fill(0xc2);
    assertFails(await verify({ report: { 0x1a0: other } }), "chip_id");
    assertFails(await verify({ vcek: { hardwareId: other } }), "chip_id");
    const masked = { report: { 0x48: Uint8Array.of(2), 0x1a0: new Uint8Array(64) } };
    assertFails(await verify(masked), "chip_id");
    const nameless = { ...masked, vcek: { hardwareId: new Uint8Array(64) } };
    assertFails(await verify(nameless), "chip_id");
    const platforms = [Buffer.from(other).toString("hex")];
    assertFails(await verify({}, { platforms }), "platform");
  });

  test("signed by a provider's key, or with another algorithm, fails", async () => {
    assertFails(await verify({ report: { 0x48: Uint8Array.of(4) } }), "report_signature");
    assertFails(await verify({ report: { 0x48: Uint8Array.of(28) } }), "report_signature");
    assertFails(await verify({ report: { 0x34: Uint8Array.of(2) } }), "report_signature");
  });

  test("of another image, or for other report data, fails", async () => {
    for (const at of [0x90, 0xc0]) {
      assertFails(await verify({ report: { [at]: Uint8Array.of(1) } }), "image_hash");
    }
    assertFails(await verify({ report: { 0x50: Uint8Array.of(1) } }), "report_data");
  });

  test("of an unknown version fails", async () => {
    for (const version of [0, 1, 6]) {
      const report = await verify({ report: { 0x00: Uint8Array.of(version) } });
      assert.equal(resultOf(report, "quote_format"), "fail");
      assert.equal(report.assurance, "none");
    }
  });
});

// Finding 6.
describe("SEV-SNP evidence of old firmware, without a revocation list", () => {
  const zero = new Uint8Array(8);
  const old = {
    report: { 0x38: zero, 0x180: zero, 0x1e0: zero, 0x1f0: zero },
    vcek: { tcb: { bootloader: 0, tee: 0, snp: 0, microcode: 0 } },
  };
  const crl = platform.revocationList([], now - day, now + day);

  test("is not verified under a policy that says nothing about SEV-SNP", async () => {
    const report = await verify(old, { sevSnp: {} });
    assertFails(report, "revocation", "tcb_minimum");
    assert.equal(report.tcb?.status, "Unknown");
    assertFails(await verifyBare(old), "revocation", "tcb_minimum");
  });

  test("is verified only if the policy opts out of both checks", async () => {
    assertFails(await verify(old, { sevSnp: { minTcb: "any" } }), "revocation");
    assertFails(await verify(old, { sevSnp: { requireCrl: false } }), "tcb_minimum");
    const report = await verify(old, { sevSnp: waived });
    assert.equal(report.verified, true);
    assert.equal(resultOf(report, "revocation"), "skipped");
    assert.equal(resultOf(report, "tcb_minimum"), "skipped");
    assert.equal(report.tcb?.status, "Unknown");
  });

  test("is verified with a current list and a minimum that its TCB reaches", async () => {
    const sevSnp = { minTcb: { Milan: { snp: 8, microcode: 115 } } };
    const report = await verify({ table: { crl } }, { sevSnp });
    assert.deepEqual(failures(report), []);
    assert.equal(report.verified, true);
    assert.equal(report.tcb?.status, "UpToDate");
    assertFails(await verify({ ...old, table: { crl } }, { sevSnp }), "tcb_minimum");
    assertFails(await verify({}, { sevSnp }), "revocation");
  });

  test("is not verified if the policy has minimums only for other products", async () => {
    const sevSnp = { ...waived, minTcb: { Genoa: { snp: 1 }, Turin: { snp: 1 } } };
    const report = await verify({}, { sevSnp });
    assertFails(report, "tcb_minimum");
    assert.equal(report.tcb?.status, "Unknown");
  });

  test("is cached no longer than its revocation list is valid", async () => {
    const sevSnp = { minTcb: { Milan: { snp: 8 } } };
    const report = await verify({ table: { crl } }, { sevSnp });
    assert.equal(report.validUntil, now + day);
    assertFails(await verify({ table: { crl } }, { sevSnp }, now + day), "revocation");
  });
});

describe("the certificate table", () => {
  test("must be present and complete, with all three certificates", async () => {
    const { aux: _aux, ...bare } = platform.evidence();
    assertFails(await verifyGiven(bare), "certificate_table");
    for (const entry of ["vcek", "ask", "ark"]) {
      assertFails(await verify({ table: { [entry]: undefined } }), "certificate_table");
      assertFails(await verify({ table: { [entry]: new Uint8Array(20) } }), "certificate_table");
    }
  });

  test("may have GUIDs in Microsoft's byte order", async () => {
    const mixed = "8d75da6364e66445adc5f4b93be8accd";
    const evidence = platform.evidence();
    const table = Buffer.from(evidence.aux ?? "", "base64");
    table.set(Buffer.from(mixed, "hex"));
    const report = await verifyGiven({ ...evidence, aux: table.toString("base64") });
    assert.equal(report.verified, true);
  });

  test("with an entry out of bounds, a duplicate entry or no end fails", async () => {
    const evidence = platform.evidence();
    const table = Buffer.from(evidence.aux ?? "", "base64");
    const outside = Buffer.from(table);
    outside.writeUInt32LE(0xffff_fff0, 16);
    const twice = Buffer.from(table);
    twice.copy(twice, 24, 0, 24);
    const endless = Buffer.alloc(24 * 40, 7);
    for (const other of [outside, twice, endless, Buffer.alloc(0), table.subarray(0, 90)]) {
      assertFails(
        await verifyGiven({ ...evidence, aux: other.toString("base64") }),
        "certificate_table",
      );
    }
  });

  test("may contain AMD's revocation list, which must then be valid and list none of the certificates", async () => {
    const list = (serials: readonly number[], at = now): Uint8Array =>
      platform.revocationList(serials, at - day, at + day);
    const clean = await verify({ table: { crl: list([0x999]) } });
    assert.equal(clean.verified, true);
    assert.equal(resultOf(clean, "revocation"), "pass");
    assertFails(await verify({ table: { crl: list([askSerial]) } }), "revocation");
    assertFails(await verify({ table: { crl: list([], now - 3 * day) } }), "revocation");
    assertFails(await verify({ table: { crl: new Uint8Array(0) } }), "revocation");
    const other = await createSnpPlatform();
    const foreign = other.revocationList([], now - day, now + day);
    assertFails(await verify({ table: { crl: foreign } }), "revocation");
  });

  test("whose certificates have expired fails", async () => {
    assertFails(await verify({}, {}, Date.UTC(2046, 0, 1)), "vcek_chain");
  });
});

describe("a real SEV-SNP report", { skip: skipWithoutShared }, () => {
  const reportData = (): Uint8Array => realBytes("snp_attestation.bin").slice(0x50, 0x90);

  test("has a valid chain and signature, and fails only because of its debug policy", async () => {
    const any = { imageHashes: "any", sevSnp: waived } as const;
    const report = await verifyEvidence(realSnp(), { reportData: reportData() }, any, now);
    assertFails(report, "guest_policy");
    for (const name of ["vcek_chain", "report_signature", "chip_id", "tcb"]) {
      assert.equal(resultOf(report, name), "pass", name);
    }
  });

  test("has a root that is pinned by its hash", async () => {
    const [, ark] = readPem(realText("snp_milan.testcer")) ?? [];
    assert.ok(ark);
    assert.deepEqual([...amdRoots.Milan], [await sha256Hex(ark.raw)]);
  });
});
