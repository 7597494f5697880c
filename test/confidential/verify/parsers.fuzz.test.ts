import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { createSimulatedPlatform } from "../../../src/confidential/evidence/simulated.ts";
import { fromBase64 } from "../../../src/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../src/confidential/verify/binary-text.ts";
import { readCertificate, readPem } from "../../../src/confidential/verify/certificate.ts";
import { readRevocationList } from "../../../src/confidential/verify/crl.ts";
import { readCertificateTable } from "../../../src/confidential/verify/snp-certificates.ts";
import { readSnpReport } from "../../../src/confidential/verify/snp-report.ts";
import { readTdxCollateral } from "../../../src/confidential/verify/tdx-collateral.ts";
import { readTdxQuote } from "../../../src/confidential/verify/tdx-quote.ts";
import { verifyEvidence } from "../../../src/confidential/verify/verify.ts";
import { createSnpPlatform } from "./snp-platform.ts";

const now = Date.UTC(2026, 10, 21);
const reportData = new Uint8Array(64).fill(4);
const tdx = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const snp = await createSnpPlatform();
const quotes = ([4, 5] as const).map((version) => {
  const quote = fromBase64(tdx.evidence(reportData, now, { version }).quote);
  assert.ok(quote);
  return quote;
});
const snpEvidence = snp.evidence();

/** `bytes` with some overwritten, some cut off or added at the end, and 32-bit fields set to what overflows. */
function mutants(bytes: Bytes): fc.Arbitrary<Bytes> {
  const patch = fc.tuple(
    fc.nat(bytes.length - 1),
    fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 6 }),
      fc.constantFrom(
        Uint8Array.of(0xff, 0xff, 0xff, 0xff),
        Uint8Array.of(0, 0, 0, 0x80),
        Uint8Array.of(0, 0, 0, 0),
      ),
    ),
  );
  const length = fc.oneof(fc.constant(bytes.length), fc.nat(bytes.length + 40));
  return fc.tuple(fc.array(patch, { maxLength: 4 }), length).map(([patches, size]) => {
    const copy = new Uint8Array(size);
    copy.set(bytes.subarray(0, size));
    for (const [at, patched] of patches)
      copy.set(patched.subarray(0, Math.max(0, size - at)), Math.min(at, size));
    return copy;
  });
}

/** Without what may follow the last certificate, which nothing vouches for: its line's end, and zeros. */
function upToTheEnd(quote: Bytes): Bytes {
  return quote.subarray(0, quote.findLastIndex((byte) => byte !== 0x0a && byte !== 0) + 1);
}

/** Where a quote says how long something is: the authentication data, the certification data, the PEM. */
function lengthFields(quote: Bytes): readonly number[] {
  const body = quote[0] === 5 ? 54 + 648 : 48 + 584;
  const certification = body + 4 + 128 + 2;
  return [body, certification, certification + 4 + 448, certification + 4 + 448 + 2 + 32 + 2];
}

describe("what a stranger sends", () => {
  test("a quote of version 4 or 5 is read whole, and only whole", () => {
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

  test("a quote with any length changed is refused", () => {
    for (const quote of quotes) {
      for (const at of lengthFields(quote)) {
        for (const value of [0, 1, 0x7fff, 0xffff]) {
          const changed = Uint8Array.from(quote);
          new DataView(changed.buffer).setUint16(at, value, true);
          assert.equal(readTdxQuote(changed), undefined, `${value} at ${at}`);
        }
      }
    }
  });

  test("a quote of any other bytes is read or refused, never thrown at", () => {
    const arbitrary = fc.oneof(
      fc.uint8Array({ maxLength: 1200 }).map((bytes) => Uint8Array.from(bytes)),
      ...quotes.map(mutants),
    );
    fc.assert(
      fc.property(arbitrary, (bytes) => {
        const read = readTdxQuote(bytes);
        if (read !== undefined) assert.ok(read.version === 4 || read.version === 5);
      }),
      { numRuns: 3000 },
    );
  });

  test("a mutant of a quote never verifies unless it is the quote", async () => {
    const { collateral } = tdx.evidence(reportData, now);
    const policy = {
      imageHashes: [tdx.imageHash],
      allowSimulated: true,
      simulatedRoots: [tdx.root],
      treatSimulatedAsVerified: true,
    };
    for (const quote of quotes) {
      const whole = Buffer.from(quote);
      await fc.assert(
        fc.asyncProperty(mutants(quote), async (bytes) => {
          const text = Buffer.from(bytes).toString("base64");
          const evidence = { tee_type: "simulated", simulated: true, quote: text, collateral };
          const report = await verifyEvidence(evidence, { reportData }, policy, now);
          const isWhole =
            whole.equals(Buffer.from(bytes).subarray(0, whole.length)) &&
            bytes.subarray(whole.length).every((byte) => byte === 0);
          if (isWhole) assert.equal(report.verified, true);
          else if (report.verified) assert.deepEqual(upToTheEnd(bytes), upToTheEnd(quote));
        }),
        { numRuns: 150 },
      );
    }
  });

  test("a certificate table of any bytes is read or refused, never thrown at", () => {
    const table = fromBase64(snpEvidence.aux ?? "");
    assert.ok(table);
    const arbitrary = fc.oneof(
      fc.uint8Array({ maxLength: 300 }).map((bytes) => Uint8Array.from(bytes)),
      mutants(table),
      mutants(table.slice(0, 96)),
    );
    fc.assert(
      fc.property(arbitrary, (bytes) => {
        const read = readCertificateTable(bytes);
        if (typeof read !== "string") assert.equal(read.chain.length, 3);
      }),
      { numRuns: 3000 },
    );
  });

  test("a report, a certificate, a list and a PEM text of any bytes are read or refused", () => {
    const quote = fromBase64(snpEvidence.quote);
    const root = fromBase64(tdx.root);
    const crl = Uint8Array.from(
      Buffer.from(tdx.evidence(reportData, now).collateral?.pck_crl ?? "", "hex"),
    );
    const pem = Buffer.from(tdx.evidence(reportData, now).collateral?.tcb_info_issuer_chain ?? "");
    assert.ok(quote && root);
    assert.ok(readSnpReport(quote) && readCertificate(root) && readRevocationList(crl));
    assert.equal(readPem(pem.toString("latin1"))?.length, 2);
    fc.assert(
      fc.property(
        mutants(quote),
        mutants(root),
        mutants(crl),
        mutants(Uint8Array.from(pem)),
        (report, certificate, list, text) => {
          assert.doesNotThrow(() => {
            readSnpReport(report);
            readCertificate(certificate);
            readRevocationList(list);
            readPem(Buffer.from(text).toString("latin1"));
          });
        },
      ),
      { numRuns: 1500 },
    );
  });

  test("collateral of any JSON is read or refused, and so is evidence", async () => {
    const good: unknown = JSON.parse(JSON.stringify(tdx.evidence(reportData, now).collateral));
    assert.notEqual(typeof readTdxCollateral(good), "string");
    const fields = Object.keys(good as object);
    const anything = fc.tuple(fc.constantFrom(...fields), fc.jsonValue()).map(([field, value]) => ({
      ...(good as object),
      [field]: value,
    }));
    // A JSON text inside, whose members are of the wrong kinds.
    const texts = fc
      .tuple(
        fc.constantFrom("tcb_info", "qe_identity"),
        fc.constantFrom(
          "tcbLevels",
          "tdxModule",
          "tdxModuleIdentities",
          "issueDate",
          "fmspc",
          "id",
        ),
        fc.jsonValue(),
      )
      .map(([field, member, value]) => {
        const whole = good as Record<string, string>;
        const inner = JSON.parse(whole[field] ?? "{}") as object;
        return { ...whole, [field]: JSON.stringify({ ...inner, [member]: value }) };
      });
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.jsonValue(), anything, texts), async (collateral) => {
        assert.doesNotThrow(() => readTdxCollateral(collateral));
        for (const evidence of [
          collateral,
          { tee_type: "tdx", quote: "", collateral },
          { ...tdx.evidence(reportData, now), quote: collateral },
        ]) {
          const policy = { imageHashes: [], allowSimulated: true, simulatedRoots: [tdx.root] };
          const report = await verifyEvidence(evidence, { reportData }, policy, now);
          assert.equal(report.assurance, "none");
        }
      }),
      { numRuns: 400 },
    );
  });
});
