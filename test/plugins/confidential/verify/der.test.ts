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
import {
  derBitString,
  derIntegerHex,
  derObjectId,
  derSmallInteger,
  derTime,
  readDer,
} from "../../../../plugins/confidential/verify/der.ts";

function hex(text: string): Uint8Array<ArrayBuffer> {
  const bytes = fromHex(text);
  assert.ok(bytes);
  return bytes;
}

describe("DER", () => {
  test("is read as it was written", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 700 }), fc.nat(0xffff), (bytes, number) => {
        const node = readDer(
          der.sequence(der.octetString(bytes), der.smallInteger(number), der.bitString(bytes)),
        );
        const [octets, integer, bits] = node?.children ?? [];
        assert.equal(toHex(octets?.content ?? new Uint8Array(0)), toHex(bytes));
        assert.equal(derSmallInteger(integer), number);
        assert.deepEqual(derBitString(bits), Uint8Array.from(bytes));
      }),
    );
  });

  test("with more than one value, a length not in its shortest form or a missing end is refused", () => {
    for (const text of [
      "",
      "30",
      "3001",
      "0500 00",
      "0500 0500",
      "3080 0000",
      "048101 00",
      "04820001 00",
      "0484000000 0100",
      "1f8101 00",
      "3003 0203 01",
    ]) {
      assert.equal(readDer(hex(text.replaceAll(" ", ""))), undefined, text);
    }
  });

  test("with a thousand nested levels is refused without a deep stack", () => {
    let nested: Uint8Array = Uint8Array.of(5, 0);
    for (let depth = 0; depth < 1000; depth++) nested = der.sequence(nested);
    assert.equal(readDer(Uint8Array.from(nested)), undefined);
  });

  test("any bytes are read or refused, and never cause an exception", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        const node = readDer(Uint8Array.from(bytes));
        if (node !== undefined) assert.equal(node.raw.length, bytes.length);
      }),
      { numRuns: 2000 },
    );
  });

  test("integers in more octets than needed are refused", () => {
    assert.equal(derIntegerHex(readDer(hex("020100"))), "00");
    assert.equal(derIntegerHex(readDer(hex("02020080"))), "0080");
    for (const text of ["0200", "02020001", "0202ff80", "040101"]) {
      assert.equal(derIntegerHex(readDer(hex(text))), undefined, text);
    }
  });

  test("object identifiers are returned in dotted decimal", () => {
    for (const id of ["2.5.29.19", "1.2.840.113741.1.13.1", "1.3.6.1.4.1.3704.1.3.8"]) {
      assert.equal(derObjectId(readDer(der.objectId(id))), id);
    }
    assert.equal(derObjectId(readDer(hex("060186"))), undefined);
  });

  test("times are in UTC with seconds, and two-digit years below 50 belong to this century", () => {
    const time = Date.UTC(2026, 10, 21, 3, 4, 5);
    assert.equal(derTime(readDer(der.utcTime(time))), time);
    const write = (tag: number, text: string): ReturnType<typeof readDer> =>
      readDer(der.writeDer(tag, new TextEncoder().encode(text)));
    assert.equal(derTime(write(0x18, "20261121030405Z")), time);
    assert.equal(derTime(write(0x17, "991121030405Z")), Date.UTC(1999, 10, 21, 3, 4, 5));
    for (const text of ["2611210304Z", "261121030405+0100", "261321030405Z", "", "x".repeat(99)]) {
      assert.equal(derTime(write(0x17, text)), undefined, text);
    }
    assert.equal(derTime(write(0x04, "20261121030405Z")), undefined);
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
