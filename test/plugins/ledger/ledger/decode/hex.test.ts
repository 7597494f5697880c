import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { hexBytes } from "../../../../../plugins/ledger/ledger/decode/hex.ts";

const copied = (text: string, start = 0, end = text.length): string | undefined =>
  hexBytes(text, start, end)?.toString("hex");

test("hex of any length and case, at any index of a text, is decoded as by Buffer", () => {
  const hex = fc.uint8Array({ maxLength: 70 }).map((bytes) => Buffer.from(bytes).toString("hex"));
  const cased = fc
    .tuple(hex, fc.nat(255))
    .map(([text, mask]) =>
      Array.from(text, (digit, at) => ((mask >> (at % 8)) & 1 ? digit.toUpperCase() : digit)).join(
        "",
      ),
    );
  fc.assert(
    fc.property(fc.string(), cased, fc.string(), (before, text, behind) => {
      const found = copied(before + text + behind, before.length, before.length + text.length);
      assert.equal(found, text.toLowerCase());
    }),
  );
});

test("text with a character that is not a hex digit is refused, at any index", () => {
  const wrong = fc.constantFrom("g", "G", "/", ":", "@", "`", " ", "\0", "x", "é", "İ", "ı", "漢");
  fc.assert(
    fc.property(fc.nat(40), fc.nat(40), wrong, (before, behind, one) => {
      const text = "a".repeat(before) + one + "0".repeat(behind);
      assert.equal(copied(text), undefined);
    }),
  );
  assert.equal(copied("abc"), undefined);
  assert.equal(copied(""), "");
});

test("values longer than the reused buffer are decoded, too", () => {
  const long = "0f".repeat((1 << 20) + 1);
  assert.equal(copied(long), long);
  assert.equal(copied(`${long.slice(2)}0g`), undefined);
  assert.equal(copied(long.slice(2)), long.slice(2));
});
