/** Tests of the scanner that counts members and levels of JSON without parsing it. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import {
  jsonBytesExcess,
  jsonExcess,
  maxJsonDepth,
  maxJsonParts,
} from "../../src/base/json-bounds.ts";

function measure(value: unknown): { parts: number; depth: number } {
  if (typeof value !== "object" || value === null) return { parts: 0, depth: 0 };
  let parts = 0;
  let depth = 0;
  for (const each of Object.values(value)) {
    const inner = measure(each);
    parts += 1 + inner.parts;
    depth = Math.max(depth, inner.depth);
  }
  return { parts, depth: depth + 1 };
}

describe("the limits on JSON", () => {
  const elements = (count: number): string => `[${"0,".repeat(count - 1)}0]`;
  const members = (count: number): string =>
    `{${Array.from({ length: count }, (_, at) => `"${at}":0`).join(",")}}`;

  test("allow the maximum number of members and elements, and not one more", () => {
    for (const make of [elements, members]) {
      assert.equal(jsonExcess(make(maxJsonParts)), undefined);
      assert.equal(jsonExcess(make(maxJsonParts + 1)), "parts");
    }
    const half = maxJsonParts / 2 - 1;
    assert.equal(jsonExcess(`[${elements(half)},${elements(half)}]`), undefined);
    assert.equal(jsonExcess(`[${elements(half)},${members(half)},0]`), "parts");
  });

  test("count no parts in empty arrays and objects", () => {
    const empty = Array.from({ length: maxJsonParts }, (_, at) => (at % 2 ? "{ \n}" : "[\t]"));
    assert.equal(jsonExcess(`[${empty.join(",")}]`), undefined);
    assert.equal(jsonExcess(`[${empty.join(",")},[]]`), "parts");
  });

  test("allow the maximum number of levels, and not one more", () => {
    const nested = (levels: number): string =>
      `${'{"a":['.repeat(levels / 2)}"${"x".repeat(300)}"${"]}".repeat(levels / 2)}`;
    assert.equal(jsonExcess(nested(maxJsonDepth)), undefined);
    assert.equal(jsonExcess(`[${nested(maxJsonDepth)}]`), "depth");
    assert.equal(jsonExcess("[".repeat(10_000_000)), "depth");
  });

  test("ignore the content of strings, however it is escaped", () => {
    const noise = String.raw`\"[{,\\`;
    const text = JSON.stringify([noise.repeat(20_000), `${"é日🙂,[".repeat(20_000)}\\`]);
    assert.equal(jsonExcess(text), undefined);
    assert.equal(jsonBytesExcess(Buffer.from(text)), undefined);
    const inner = `[${"[".repeat(maxJsonDepth)}${"]".repeat(maxJsonDepth)}]`;
    for (let length = 0; length < 80; length++) {
      const before = JSON.stringify(`${"x".repeat(length)}\\"`);
      assert.equal(jsonExcess(`[${before},${JSON.stringify(inner)}]`), undefined, `${length}`);
      assert.equal(jsonExcess(`[${before},${inner}]`), "depth", `${length}`);
    }
  });

  test("agree with the result of JSON.parse, for text and for bytes", () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6 }), fc.integer({ min: 0, max: 200 }), (text, around) => {
        const deep = `${"[".repeat(around)}${text}${"]".repeat(around)}`;
        const { parts, depth } = measure(JSON.parse(deep));
        const expected = depth > maxJsonDepth ? "depth" : undefined;
        assert.ok(parts <= maxJsonParts);
        // The text is padded so that it is never too short to be looked at.
        assert.equal(jsonExcess(deep + " ".repeat(300)), expected);
        assert.equal(jsonBytesExcess(Buffer.from(deep + " ".repeat(300))), expected);
      }),
    );
  });

  test("terminate on text that is not JSON", () => {
    for (const text of [
      '"'.repeat(999),
      "\\".repeat(999),
      '["\\',
      '"x\\"'.repeat(300),
      "]".repeat(999),
    ]) {
      assert.equal(jsonExcess(text), undefined);
    }
    assert.equal(jsonExcess(",".repeat(maxJsonParts + 1)), "parts");
  });
});
