import assert from "node:assert/strict";
import { test } from "node:test";
import { contractVersion, isContractRange, supportsContract } from "../src/contract/version.ts";

test("a range covers its first number, from its second one on", () => {
  assert.ok(supportsContract("^1", "1.0"));
  assert.ok(supportsContract("^1", "1.12"));
  assert.ok(supportsContract("^1.2", "1.10"));
  assert.ok(!supportsContract("^1.2", "1.1"));
  assert.ok(!supportsContract("^1", "2.0"));
  assert.ok(!supportsContract("^2", "1.9"));
  assert.ok(!supportsContract("^10", "1.0"));
});

test("only ranges of this form are valid", () => {
  for (const range of ["^1", "^1.0", "^12.34"]) assert.ok(isContractRange(range), range);
  for (const range of ["1", "^0", "^1.2.3", ">=1", "*", "^1 ", "", 1, undefined]) {
    assert.ok(!isContractRange(range), String(range));
  }
  assert.throws(() => supportsContract("latest"), /not a range of contract versions: latest/);
});

test("this release supports plugins for its own version", () => {
  assert.ok(supportsContract(`^${contractVersion}`));
});
