/** Tests of the codecs and parsers of JSON and CSV, and of the compiler of JSON Schemas. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import * as fc from "fast-check";
import { canonicalJson, stableJson } from "../../src/base/canonical-json.ts";
import {
  jsonBytesExcess,
  jsonExcess,
  maxJsonDepth,
  maxJsonParts,
} from "../../src/base/json-bounds.ts";
import { parseJson } from "../../src/base/parse-json.ts";
import { draft2020 } from "../../src/base/json-schema.ts";
import { recordSchemas, schemaCompiler } from "../../src/base/schema-compiler.ts";
import { csvLine } from "../../src/base/csv.ts";

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

describe("JSON from clients and backends", () => {
  test("keeps the escapes that its strings need, and names that contain a backslash", () => {
    const value = { '\\u0061"\n\u2028': ["\\u0062", { "\\": '\t"\\/\u0000\ud800' }], "a/b": "\\n" };
    assert.deepEqual(parseJson(JSON.stringify(value)), value);
    assert.deepEqual(parseJson(String.raw`{"\\":"\u005c\u0022\u000a\/\u00e9\ud83d\ude42"}`), {
      "\\": '\\"\n/é🙂',
    });
  });

  test("is refused if it is not valid or exceeds a limit", () => {
    for (const text of ["", "{", String.raw`{"\\":\u0031}`, String.raw`{"\\":1}\/`]) {
      assert.throws(() => parseJson(text), SyntaxError);
    }
    const nested = (levels: number): string => `${"[".repeat(levels)}"\\n"${"]".repeat(levels)}`;
    assert.ok(Array.isArray(parseJson(nested(128))));
    assert.throws(() => parseJson(nested(129)), SyntaxError);
    assert.throws(() => parseJson(nested(200_000)), SyntaxError);
    const elements = (count: number): string => `[${"0,".repeat(count - 1)}0]`;
    assert.ok(Array.isArray(parseJson(elements(65_536))));
    assert.throws(() => parseJson(elements(65_537)), SyntaxError);
  });
});

test("a compiler validates with its formats, and records its schemas for the build", () => {
  const records = recordSchemas();
  const compile = schemaCompiler("of a test", {
    formatTests: { even: (text) => text.length % 2 === 0 },
  });
  const isEven = compile({ type: "string", format: "even" });
  assert.equal(isEven("ab"), true);
  assert.equal(isEven("abc"), false);
  assert.equal(isEven.errors?.[0]?.keyword, "format");
  assert.deepEqual(
    [...(records.get("of a test")?.schemas.values() ?? [])],
    [{ type: "string", format: "even" }],
  );
});

test("two schemas may have the same $id, also after one that is refused", () => {
  const compile = schemaCompiler("of ids", {});
  const $id = "https://example.com/a";
  assert.throws(() => compile({ $id, type: "string", pattern: "(" }), /regular expression/i);
  assert.equal(compile({ $id, type: "string" })("a"), true);
  assert.equal(compile({ $id, type: "number" })("a"), false);
});

test("a schema that is not one of the drafts is refused", () => {
  const compile = schemaCompiler("of drafts", { drafts: [draft2020] });
  assert.throws(() => compile({ type: "strng" }), /schema is invalid/);
  assert.throws(() => compile({ $schema: "https://example.com/draft" }), /no schema with key/);
});

test("fields with commas, quotes and line breaks are quoted", () => {
  assert.equal(
    csvLine(["a,b", 'say "hi"', "two\nlines", "plain"]),
    '"a,b","say ""hi""","two\nlines",plain',
  );
});

test("text that a spreadsheet would run begins with an apostrophe, and numbers do not change", () => {
  assert.equal(csvLine(["=1+1", "@x", -5, true, "+", "\tx"]), "'=1+1,'@x,-5,true,'+,'\tx");
});
