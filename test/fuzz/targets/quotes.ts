/**
 * Attestation evidence that was damaged or made up: it is read or refused without an exception, and it is never
 * verified unless every part that a signature covers is unchanged.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as fc from "fast-check";
import {
  createSimulatedPlatform,
  type SimulatedPlatform,
} from "../../../plugins/confidential/evidence/simulated.ts";
import { fromBase64 } from "../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../plugins/confidential/verify/binary-text.ts";
import { readCertificate, readPem } from "../../../plugins/confidential/verify/certificate.ts";
import { readRevocationList } from "../../../plugins/confidential/verify/crl.ts";
import type { VerificationPolicy } from "../../../plugins/confidential/verify/policy.ts";
import { readCertificateTable } from "../../../plugins/confidential/verify/snp-certificates.ts";
import { readSnpReport } from "../../../plugins/confidential/verify/snp-report.ts";
import { readTdxCollateral } from "../../../plugins/confidential/verify/tdx-collateral.ts";
import { readTdxQuote } from "../../../plugins/confidential/verify/tdx-quote.ts";
import { verifyEvidence } from "../../../plugins/confidential/verify/verify.ts";
import {
  createSnpPlatform,
  snpReportData,
} from "../../plugins/confidential/verify/snp-platform.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget, Random } from "../target.ts";

const now = Date.UTC(2026, 10, 21);
const day = 24 * 3_600_000;
const reportData = new Uint8Array(64).fill(4);

const mutants = (bytes: Uint8Array): fc.Arbitrary<Bytes> =>
  mutantsOf(fc.constant(bytes), 4).map((mutant) => Uint8Array.from(mutant));

export const quotes: FuzzTarget = {
  name: "quotes",
  async run(random) {
    const tdx = await createSimulatedPlatform(new Uint8Array(32).fill(1));
    const originals = ([4, 5] as const).map((version) =>
      decoded(tdx.evidence(reportData, now, { version }).quote),
    );
    await readsAnything(random, tdx, originals);
    await refusesTdxMutants(random, tdx, originals);
    await refusesSnpMutants(random);
    await refusesCollateral(random, tdx);
  },
};

function decoded(base64: string | undefined): Bytes {
  const bytes = fromBase64(base64 ?? "");
  assert.ok(bytes);
  return bytes;
}

async function readsAnything(
  random: Random,
  tdx: SimulatedPlatform,
  originals: readonly Bytes[],
): Promise<void> {
  const snp = (await createSnpPlatform()).evidence();
  const table = decoded(snp.aux);
  const { collateral } = tdx.evidence(reportData, now);
  const pem = Buffer.from(collateral?.tcb_info_issuer_chain ?? "");
  const readers: Readonly<Record<string, readonly [(bytes: Bytes) => unknown, readonly Bytes[]]>> =
    {
      readTdxQuote: [readTdxQuote, originals],
      readCertificateTable: [readCertificateTable, [table, table.slice(0, 96)]],
      readSnpReport: [readSnpReport, [decoded(snp.quote)]],
      readCertificate: [readCertificate, [decoded(tdx.root)]],
      readRevocationList: [
        readRevocationList,
        [Uint8Array.from(Buffer.from(collateral?.pck_crl ?? "", "hex"))],
      ],
      readPem: [(bytes) => readPem(Buffer.from(bytes).toString("latin1")), [Uint8Array.from(pem)]],
    };
  for (const [name, [read, samples]] of Object.entries(readers)) {
    for (const sample of samples.slice(0, 1)) assert.equal(typeof read(sample), "object", name);
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 1200 }).map((each) => Uint8Array.from(each)),
      ...samples.map(mutants),
    );
    await random.check(`${name} reads or refuses any bytes`, bytes, 1_000, (each) => {
      read(each);
    });
  }
}

async function refusesTdxMutants(
  random: Random,
  tdx: SimulatedPlatform,
  originals: readonly Bytes[],
): Promise<void> {
  const { collateral } = tdx.evidence(reportData, now);
  const policy = {
    imageHashes: [tdx.imageHash],
    allowSimulated: true,
    simulatedRoots: [tdx.root],
    treatSimulatedAsVerified: true,
  };
  for (const quote of originals) {
    const verify = async (bytes: Uint8Array): Promise<boolean> => {
      const text = Buffer.from(bytes).toString("base64");
      const evidence = { tee_type: "simulated", simulated: true, quote: text, collateral };
      return (await verifyEvidence(evidence, { reportData }, policy, now)).verified;
    };
    assert.equal(await verify(quote), true);
    const title = `a changed TDX quote of version ${quote[0]} is not verified`;
    await random.check(title, mutants(quote), 150, async (bytes) => {
      if (await verify(bytes)) assert.deepEqual(signedPart(bytes), signedPart(quote));
    });
  }
}

/** Returns a quote without the unsigned bytes that may follow its last certificate: line ends and zeros. */
function signedPart(quote: Bytes): Bytes {
  return quote.subarray(0, quote.findLastIndex((byte) => byte !== 0x0a && byte !== 0) + 1);
}

async function refusesSnpMutants(random: Random): Promise<void> {
  const platform = await createSnpPlatform();
  const crl = platform.revocationList([], now - day, now + day);
  const evidence = platform.evidence({ table: { crl } });
  const imageHash = createHash("sha256")
    .update("snp-image/1\0")
    .update(new Uint8Array(48).fill(0x3e))
    .update(new Uint8Array(32).fill(0x40))
    .digest("hex");
  const policy: VerificationPolicy = {
    imageHashes: [imageHash],
    sevSnp: { minTcb: { Milan: { snp: 8, microcode: 115 } } },
  };
  const verify = async (quote: Bytes, table: Bytes): Promise<boolean> => {
    const text = (bytes: Bytes): string => Buffer.from(bytes).toString("base64");
    const changed = { ...evidence, quote: text(quote), aux: text(table) };
    const expected = { reportData: snpReportData };
    return (await verifyEvidence(changed, expected, policy, now, platform.roots)).verified;
  };
  const [report, table] = [decoded(evidence.quote), decoded(evidence.aux)];
  assert.equal(await verify(report, table), true);
  await random.check(
    "a changed SEV-SNP report is not verified",
    mutants(report),
    150,
    async (m) => {
      if (await verify(m, table)) assert.deepEqual(m, report);
    },
  );
  // The table itself is not signed, so its entries may move. The certificates in it must not change.
  const certificates = readCertificateTable(table);
  const title = "a SEV-SNP report with changed certificates is not verified";
  await random.check(title, mutants(table), 150, async (m) => {
    if (await verify(report, m)) assert.deepEqual(readCertificateTable(m), certificates);
  });
}

/** JSON texts inside the collateral, with members of wrong types. */
const innerMembers = [
  "tcbLevels",
  "tdxModule",
  "tdxModuleIdentities",
  "issueDate",
  "fmspc",
  "id",
] as const;

async function refusesCollateral(random: Random, tdx: SimulatedPlatform): Promise<void> {
  // All members of collateral are strings.
  const good = tdx.evidence(reportData, now).collateral as unknown as Record<string, string>;
  assert.notEqual(typeof readTdxCollateral(good), "string");
  const replaced = fc
    .tuple(fc.constantFrom(...Object.keys(good)), fc.jsonValue())
    .map(([field, value]): unknown => ({ ...good, [field]: value }));
  const texts = fc
    .tuple(
      fc.constantFrom("tcb_info", "qe_identity"),
      fc.constantFrom(...innerMembers),
      fc.jsonValue(),
    )
    .map(([field, member, value]): unknown => {
      const inner = JSON.parse(good[field] ?? "{}") as object;
      return { ...good, [field]: JSON.stringify({ ...inner, [member]: value }) };
    });
  const anything = fc.oneof(fc.jsonValue(), replaced, texts);
  const title = "collateral and evidence of any JSON are refused without a throw";
  await random.check(title, anything, 400, async (collateral) => {
    readTdxCollateral(collateral);
    for (const evidence of [
      collateral,
      { tee_type: "tdx", quote: "", collateral },
      { ...tdx.evidence(reportData, now), quote: collateral },
    ]) {
      const policy = { imageHashes: [], allowSimulated: true, simulatedRoots: [tdx.root] };
      const report = await verifyEvidence(evidence, { reportData }, policy, now);
      assert.equal(report.assurance, "none");
    }
  });
}
