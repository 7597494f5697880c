/** Tests of the algorithm that suggests the most similar name. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { editDistance, nearest } from "../../src/config/nearest.ts";

test("a name never suggests itself", () => {
  assert.equal(nearest("meter", ["meter"]), undefined);
});

const word = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 8 });

test("the distance is 0 only between equal words, symmetric, and at most the longer length", () => {
  fc.assert(
    fc.property(word, word, (a, b) => {
      const distance = editDistance(a, b, 100);
      assert.equal(distance === 0, a === b);
      assert.equal(distance, editDistance(b, a, 100));
      assert.ok(distance <= Math.max(a.length, b.length));
    }),
  );
});

test("a limit never changes a distance below it", () => {
  fc.assert(
    fc.property(word, word, fc.integer({ min: 1, max: 9 }), (a, b, limit) => {
      assert.equal(editDistance(a, b, limit), Math.min(limit, editDistance(a, b, 100)));
    }),
  );
});

test("two swapped neighbours count as one mistake", () => {
  assert.equal(editDistance("abcd", "abdc", 100), 1);
});
