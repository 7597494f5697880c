/** Tests of the codec of canonical JSON. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { canonicalJson, stableJson } from "../../src/base/canonical-json.ts";

function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).toReversed();
  return Object.fromEntries(members.map(([name, member]) => [name, reversed(member)]));
}

/** Arbitrary results of JSON.parse: no -0, no undefined. */
const parsed = fc.jsonValue().map((value): unknown => JSON.parse(JSON.stringify(value)));

describe("canonical JSON", () => {
  it("is the same text for equal values, whatever the order of their members", () => {
    fc.assert(
      fc.property(parsed, (value) => {
        assert.equal(canonicalJson(reversed(value)), canonicalJson(value));
      }),
      { numRuns: 300 },
    );
  });

  it("parses to the same value", () => {
    fc.assert(
      fc.property(parsed, (value) => {
        assert.deepEqual(JSON.parse(canonicalJson(value) ?? ""), value);
      }),
      { numRuns: 300 },
    );
  });

  it("has no text for what JSON cannot express, which stableJson still distinguishes", () => {
    const values = [["\ud83d"], ["\ud83e"], [{ "\ud83d": 1 }], [Number.NaN], [undefined, 1]];
    for (const value of values) assert.equal(canonicalJson(value), undefined);
    assert.equal(new Set(values.map(stableJson)).size, values.length);
  });

  it("differs for different values", () => {
    fc.assert(
      fc.property(parsed, parsed, (a, b) => {
        assert.equal(canonicalJson(a) === canonicalJson(b), isDeepStrictEqual(a, b));
      }),
      { numRuns: 300 },
    );
  });

  it("orders members by code unit, including numeric names, and keeps every name", () => {
    const text =
      '{"b":1,"10":2,"9":3,"__proto__":{"z":[],"a":null},"\\ud83d\\ude00":4,"\\ufb33":5}';
    assert.equal(
      canonicalJson(JSON.parse(text)),
      '{"10":2,"9":3,"__proto__":{"a":null,"z":[]},"b":1,"\u{1f600}":4,"\ufb33":5}',
    );
  });
});
