/**
 * The scanner against JSON.parse: the judge of what is JSON and what it means; and byte equality, of what is passed on.
 */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { readRequest } from "../../src/stream/json/request.ts";
import { splitResponse } from "../../src/stream/json/response.ts";
import { malformed, skipValue } from "../../src/stream/json/scan.ts";

/** Text of any JSON value: spelt in ways that JSON.stringify never does. */
const spacing = fc.string({ unit: fc.constantFrom(" ", "\n", "\r", "\t"), maxLength: 2 });
const number = fc.oneof(
  fc.integer().map(String),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => JSON.stringify(n)),
  fc.constantFrom(
    "-0",
    "0.10",
    "1E5",
    "1e-0",
    "2.50e+007",
    "340282366920938463463374607431768211455",
  ),
  fc.bigInt().map(String),
);
const unit = fc.oneof(
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
  fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
);
const escape = fc.oneof(
  fc.constantFrom("\\n", "\\/", '\\"', "\\\\", "\\b", "\\f", "\\r", "\\t"),
  fc.integer({ min: 0, max: 0xffff }).map((code) => `\\u${code.toString(16).padStart(4, "0")}`),
  fc
    .integer({ min: 0xa0, max: 0xff })
    .map((code) => `\\u${code.toString(16).padStart(4, "0").toUpperCase()}`),
);
const plain = unit.map((char) => JSON.stringify(char).slice(1, -1));
const string = fc
  .array(fc.oneof(plain, escape), { maxLength: 40 })
  .map((parts) => `"${parts.join("")}"`);
const json: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.oneof(number, string, fc.constantFrom("true", "false", "null")),
    fc
      .tuple(spacing, fc.array(fc.tuple(tie("value"), spacing), { maxLength: 4 }))
      .map(
        ([before, items]) => `[${before}${items.map((item) => item.join("")).join(`,${before}`)}]`,
      ),
    fc
      .tuple(spacing, fc.array(fc.tuple(string, spacing, tie("value"), spacing), { maxLength: 4 }))
      .map(
        ([before, members]) =>
          `{${before}${members.map(([name, space, value, after]) => `${name}${space}:${space}${value}${after}`).join(`,${before}`)}}`,
      ),
  ),
})).value;

/** Bytes with a few of them changed, removed, doubled or cut off. */
const mutated = fc
  .tuple(
    json.map((text) => Buffer.from(text)),
    fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 }), fc.nat({ max: 3 })), { maxLength: 3 }),
  )
  .map(([bytes, changes]) => {
    let result = bytes;
    for (const [where, byte, how] of changes) {
      const at = result.length === 0 ? 0 : where % result.length;
      const middle = [Buffer.from([byte]), Buffer.alloc(0), result.subarray(at, at + 1)][how];
      result =
        middle === undefined
          ? result.subarray(0, at)
          : Buffer.concat([
              result.subarray(0, how === 2 ? at + 1 : at),
              middle,
              result.subarray(at + 1),
            ]);
    }
    return result;
  });

function isJson(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

const runs = { numRuns: 1500 };

describe("skipValue", () => {
  it("reads every JSON text to its end, trusted or not", () => {
    fc.assert(
      fc.property(json, (text) => {
        const bytes = Buffer.from(text);
        assert(isJson(bytes), "the generator makes JSON");
        assert.equal(skipValue(bytes, 0, bytes.length, 0, "strict"), bytes.length);
        assert.equal(skipValue(bytes, 0, bytes.length, 0, "trusted"), bytes.length);
      }),
      runs,
    );
  });

  it("stops at the end of a value that stands among others, and never reads past the end given", () => {
    fc.assert(
      fc.property(json, json, (text, next) => {
        const bytes = Buffer.from(`${text},${next}`);
        const end = Buffer.byteLength(text);
        assert.equal(skipValue(bytes, 0, bytes.length, 0, "strict"), end);
        assert.equal(skipValue(bytes, 0, bytes.length, 0, "trusted"), end);
        // Without its last byte only a number is still a value; the bytes after it must not complete it.
        const cut = skipValue(bytes, 0, end - 1, 0, "strict");
        assert(cut === malformed || cut <= end - 1);
      }),
      runs,
    );
  });
});

describe("readRequest", () => {
  it("agrees with JSON.parse on what is JSON, over damaged texts", () => {
    fc.assert(
      fc.property(mutated, (bytes) => {
        const result = readRequest(bytes, 50);
        assert.equal(result.kind !== "malformed", isJson(bytes), bytes.toString());
      }),
      { numRuns: 4000 },
    );
  });

  it("agrees with JSON.parse on what is JSON, over arbitrary bytes", () => {
    const soup = fc.oneof(
      fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
      fc
        .string({
          unit: fc.constantFrom(...Array.from('{}[]",:\\u0019eE+-. truefalsn')),
          maxLength: 12,
        })
        .map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(soup, (bytes) => {
        assert.equal(readRequest(bytes, 50).kind !== "malformed", isJson(bytes), bytes.toString());
      }),
      { numRuns: 4000 },
    );
  });

  const members = fc
    .tuple(
      fc.record({
        jsonrpc: fc.constantFrom('"2.0"', '"2\\u002e0"'),
        id: fc.oneof(number, string, fc.constant("null")),
        method: string,
        params: json.filter((text) => /^[[{]/.test(text)),
      }),
      fc.uniqueArray(fc.tuple(string, json), {
        maxLength: 3,
        selector: ([name]) => String(JSON.parse(name)),
      }),
      spacing,
      fc.array(fc.nat(), { minLength: 7, maxLength: 7 }),
    )
    .map(([known, unknown, space, order]) => {
      const free = unknown.filter(([name]) => !(String(JSON.parse(name)) in known));
      const all = [...Object.entries(known).map(([name, value]) => [`"${name}"`, value]), ...free];
      const shuffled = all
        .map((member, i) => ({ member, rank: order[i] ?? 0 }))
        .toSorted((a, b) => a.rank - b.rank);
      const text = shuffled
        .map(({ member: [name, value] }) => `${space}${name}${space}:${space}${value}${space}`)
        .join(",");
      return { known, text: `{${text}}` };
    });

  it("finds what JSON.parse finds, and passes on the bytes that were sent", () => {
    fc.assert(
      fc.property(members, fc.boolean(), ({ known, text }, inBatch) => {
        const result = readRequest(Buffer.from(inBatch ? `[1,${text}]` : text), 50);
        const item =
          result.kind === "single"
            ? result.item
            : result.kind === "batch"
              ? result.items[1]
              : undefined;
        assert.deepEqual(item, {
          kind: "call",
          id: known.id,
          method: JSON.parse(known.method),
          params: known.params,
        });
      }),
      runs,
    );
  });

  it("finds a member that stands twice, wherever it stands", () => {
    const again = fc.constantFrom(
      '"jsonrpc":"2.0"',
      '"method":"m"',
      '"params":[]',
      '"m\\u0065thod":""',
    );
    fc.assert(
      fc.property(members, again, fc.boolean(), ({ text, known }, twice, first) => {
        const body = first ? `{${twice},${text.slice(1)}` : `${text.slice(0, -1)},${twice}}`;
        assert.deepEqual(readRequest(Buffer.from(body), 50), {
          kind: "single",
          item: { kind: "invalid", id: known.id },
        });
      }),
      { numRuns: 500 },
    );
  });
});

describe("splitResponse", () => {
  it("finds the bytes of a result, wherever it stands", () => {
    fc.assert(
      fc.property(
        json,
        fc.nat({ max: 2 ** 50 }),
        fc.boolean(),
        spacing,
        (text, id, first, space) => {
          const parts = [`"id"${space}:${id}`, `"result":${space}${text}`, '"jsonrpc":"2.0"'];
          const body = Buffer.from(
            `${space}{${(first ? parts : parts.toReversed()).join(`,${space}`)}}${space}`,
          );
          const split = splitResponse(body);
          assert(split !== undefined);
          assert.equal(split.kind, "result");
          assert.equal(split.id, id <= 999_999_999_999_999 ? id : -1);
          assert.equal(body.toString("utf8", split.start, split.end), text);
        },
      ),
      runs,
    );
  });

  it("takes nothing that JSON.parse would not, but for what long strings hold", () => {
    fc.assert(
      fc.property(mutated, (bytes) => {
        const body = Buffer.concat([Buffer.from('{"id":1,"result":'), bytes, Buffer.from("}")]);
        const split = splitResponse(body);
        if (isJson(bytes)) assert(split !== undefined);
        // The native search takes over 16 bytes into a string, and looks for nothing but its end.
        if (split !== undefined && !isJson(body)) assert(bytes.length > 16 && bytes.includes('"'));
      }),
      runs,
    );
  });
});
