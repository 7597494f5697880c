import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createSimulatedPlatform } from "../../../../plugins/confidential/evidence/simulated.ts";
import { fromBase64 } from "../../../../plugins/confidential/verify/binary-text.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { readTdxQuote } from "../../../../plugins/confidential/verify/tdx-quote.ts";

const now = Date.UTC(2026, 10, 21);
const reportData = new Uint8Array(64).fill(4);
const tdx = await createSimulatedPlatform(new Uint8Array(32).fill(1));
const quotes = ([4, 5] as const).map((version) => {
  const quote = fromBase64(tdx.evidence(reportData, now, { version }).quote);
  assert.ok(quote);
  return quote;
});

/** Offsets of the length fields of a quote: of the authentication data, the certification data and the PEM. */
function lengthFields(quote: Bytes): readonly number[] {
  const body = quote[0] === 5 ? 54 + 648 : 48 + 584;
  const certification = body + 4 + 128 + 2;
  return [body, certification, certification + 4 + 448, certification + 4 + 448 + 2 + 32 + 2];
}

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

  test("is refused if any of its lengths is changed", () => {
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
});
