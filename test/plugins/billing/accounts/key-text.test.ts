import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  environments,
  hashKey,
  keyEnvironment,
  newId,
  newKeyText,
} from "../../../../plugins/billing/accounts/key-text.ts";

/** The pattern of the specification, to compare with. */
const format = /^gateway_(dev|stage|prod)_[0-9a-fA-F]{32}$/;
const hexDigit = fc.constantFrom(...Array.from("0123456789abcdefABCDEF"));

test("every new key has the format, its environment and 128 random bits", () => {
  for (const each of environments) {
    assert.match(newKeyText(each), new RegExp(`^gateway_${each}_[0-9a-f]{32}$`));
    assert.equal(keyEnvironment(newKeyText(each)), each);
  }
  const many = Array.from({ length: 1_000 }, () => newKeyText("dev"));
  assert.equal(new Set(many).size, many.length);
});

test("any text is recognized exactly if it matches the pattern of the specification", () => {
  const nearly = fc
    .tuple(
      fc.constantFrom("gateway_", "Gateway_", "gateway-", " gateway_", ""),
      fc.constantFrom("dev", "stage", "prod", "test", "DEV", "devdev", ""),
      fc.constantFrom("_", "-", "__", ""),
      fc.string({
        unit: fc.oneof(
          { weight: 40, arbitrary: hexDigit },
          fc.constantFrom(...Array.from("gG/:@`{ \t\né")),
        ),
        minLength: 30,
        maxLength: 34,
      }),
    )
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.oneof(nearly, fc.string()), (line) => {
      assert.equal(keyEnvironment(line) !== undefined, format.test(line), JSON.stringify(line));
    }),
    { numRuns: 3_000 },
  );
});

test("a key is stored as the SHA-256 of its text in lower-case hex", () => {
  const text = newKeyText("prod");
  assert.equal(hashKey(text), createHash("sha256").update(text).digest("hex"));
});

test("ids are URL-safe and distinct", () => {
  const ids = Array.from({ length: 1_000 }, () => newId("ws"));
  assert.ok(ids.every((id) => /^ws_[0-9a-f]{24}$/.test(id)));
  assert.equal(new Set(ids).size, ids.length);
});
