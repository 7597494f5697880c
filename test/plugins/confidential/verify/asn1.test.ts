import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import * as der from "../../../../plugins/confidential/evidence/der-writer.ts";
import {
  fromBase64,
  fromHex,
  toBase64,
  toHex,
} from "../../../../plugins/confidential/verify/binary-text.ts";
import { OctetString } from "@peculiar/asn1-schema";
import { CertificateList, Time } from "@peculiar/asn1-x509";
import { EcdsaSignature, readAsn1 } from "../../../../plugins/confidential/verify/asn1.ts";

function hex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(text.replaceAll(" ", ""));
  assert.ok(bytes);
  return bytes;
}

describe("ASN.1", () => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(0xffff), (bytes, number) => {
        const read = readAsn1(der.octetString(bytes), OctetString);
        assert.equal(toHex(new Uint8Array(read?.buffer ?? new ArrayBuffer(0))), toHex(bytes));
        const pair = readAsn1(
          der.sequence(der.smallInteger(number), der.integer(bytes)),
          EcdsaSignature,
        );
        assert.equal(pair?.r, BigInt(number));
        assert.equal(pair.s, BigInt(`0x0${toHex(bytes)}`));
      }),
    );
  });

  test("with more than one value, a length not in its shortest form or a missing end is refused", () => {
    for (const text of ["", "04", "0401", "0400 00", "0480 0000", "048101 00", "04820001 00"]) {
      assert.equal(readAsn1(hex(text), OctetString), undefined, text);
    }
    for (const text of [
      "3006 020101 0203 01",
      "3007 020101 0202 0001",
      "3005 020101 0200",
      "3003 020101",
    ]) {
      assert.equal(readAsn1(hex(text), EcdsaSignature), undefined, text);
    }
  });

  test("with a thousand nested levels is refused without a deep stack", () => {
    let nested: Uint8Array = Uint8Array.of(5, 0);
    for (let depth = 0; depth < 1000; depth++) nested = der.sequence(nested);
    assert.equal(readAsn1(nested, CertificateList), undefined);
  });

  test("any bytes are read or refused, and never cause an exception", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        readAsn1(bytes, OctetString);
        readAsn1(bytes, EcdsaSignature);
        readAsn1(bytes, Time);
        readAsn1(bytes, CertificateList);
      }),
      { numRuns: 2000 },
    );
  });

  test("times are in UTC with seconds, and two-digit years below 50 belong to this century", () => {
    const time = Date.UTC(2026, 10, 21, 3, 4, 5);
    const read = (bytes: Uint8Array): number | undefined =>
      readAsn1(bytes, Time)?.getTime().getTime();
    assert.equal(read(der.utcTime(time)), time);
    const write = (tag: number, text: string): Uint8Array =>
      der.writeDer(tag, new TextEncoder().encode(text));
    assert.equal(read(write(0x18, "20261121030405Z")), time);
    assert.equal(read(write(0x17, "991121030405Z")), Date.UTC(1999, 10, 21, 3, 4, 5));
    for (const text of ["2611210304Z", "261121030405+0100", "261321030405Z", "", "x".repeat(99)]) {
      assert.equal(read(write(0x17, text)), undefined, text);
    }
    assert.equal(read(write(0x04, "20261121030405Z")), undefined);
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
