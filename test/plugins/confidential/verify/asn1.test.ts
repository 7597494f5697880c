import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import * as der from "./der-writer.ts";
import {
  fromBase64,
  fromHex,
  toBase64,
  toHex,
} from "../../../../plugins/confidential/verify/binary-text.ts";
import { EcdsaSignature, readAsn1 } from "../../../../plugins/confidential/verify/asn1.ts";
import { readRevocationList } from "../../../../plugins/confidential/verify/crl.ts";

function hex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(text.replaceAll(" ", ""));
  assert.ok(bytes);
  return bytes;
}

describe("ASN.1", () => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(0xffff), (bytes, number) => {
        const pair = der.sequence(der.smallInteger(number), der.integer(bytes));
        const read = readAsn1(pair, EcdsaSignature);
        assert.equal(read?.r, BigInt(number));
        assert.equal(read.s, BigInt(`0x0${toHex(bytes)}`));
      }),
    );
  });

  test("with more than one value, a length not in its shortest form or a missing end is refused", () => {
    assert.ok(readAsn1(hex("3006 020101 020101"), EcdsaSignature));
    for (const text of [
      "",
      "30",
      "3006 020101 0201",
      "3006 020101 020101 00",
      "3080 020101 020101 0000",
      "308106 020101 020101",
      "30820006 020101 020101",
      "3007 020101 0202 0001",
      "3007 020101 028101 01",
      "3005 020101 0200",
      "3003 020101",
    ]) {
      assert.equal(readAsn1(hex(text), EcdsaSignature), undefined, text);
    }
  });

  test("with a thousand nested levels is refused without a deep stack", () => {
    let nested: Uint8Array<ArrayBuffer> = Uint8Array.of(5, 0);
    for (let depth = 0; depth < 1000; depth++) nested = der.sequence(nested);
    assert.equal(readRevocationList(nested), undefined);
  });
});

describe("the text form of bytes", () => {
  test("has one spelling in base64", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        assert.deepEqual(fromBase64(toBase64(bytes)), Uint8Array.from(bytes));
      }),
    );
    for (const text of ["AA", "AA=", "AB==", "AA==\n", " AAA", "A-_A", "====", "AA==AAAA"]) {
      assert.equal(fromBase64(text), undefined, text);
    }
  });

  test("consists of whole bytes in hex", () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        assert.deepEqual(fromHex(toHex(bytes).toUpperCase()), Uint8Array.from(bytes));
      }),
    );
    for (const text of ["0", "0x", "zz", "00 00"]) assert.equal(fromHex(text), undefined, text);
  });
});
