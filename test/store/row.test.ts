import assert from "node:assert/strict";
import { test } from "node:test";
import { number, oneOf, optionalNumber, optionalText, text } from "../../src/store/row.ts";

test("columns are returned with the requested type", () => {
  const row = { t: "word", n: 3, none: null };
  assert.equal(text(row, "t"), "word");
  assert.equal(number(row, "n"), 3);
  assert.equal(optionalText(row, "t"), "word");
  assert.equal(optionalText(row, "none"), undefined);
  assert.equal(optionalNumber(row, "n"), 3);
  assert.equal(optionalNumber(row, "none"), undefined);
  assert.equal(oneOf(row, "t", ["word", "other"]), "word");
});

test("a column of another type, a missing column and an unlisted word throw an error that names the column", () => {
  const row = { t: "word", n: 3, none: null, blob: new Uint8Array(1) };
  assert.throws(() => text(row, "n"), /column n is not text/);
  assert.throws(() => text(row, "blob"), /column blob/);
  assert.throws(() => number(row, "none"), /column none is not a number/);
  assert.throws(() => optionalNumber(row, "absent"), /column absent/);
  assert.throws(() => optionalText(row, "n"), /column n/);
  assert.throws(() => oneOf(row, "t", ["other"]), /column t is not one of other/);
});
