/**
 * Compares the JSON scanner with JSON.parse, which defines what is valid and what it means. The bytes that are passed
 * on must be those that were sent.
 */
import assert from "node:assert/strict";
import { isUtf8 } from "node:buffer";
import * as fc from "fast-check";
import { readRequest } from "../../../src/http/json/request.ts";
import { splitResponse } from "../../../plugins/ledger/ledger/pool/split-response.ts";
import { malformed, skipValue } from "../../../src/http/json/scan.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget, Random } from "../target.ts";

/** The text of any JSON value, with spellings that JSON.stringify never writes. */
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

const mutated = mutantsOf(json.map((text) => Buffer.from(text)));
const soup = fc.oneof(
  fc.uint8Array({ maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
  fc
    .string({
      unit: fc.constantFrom(...Array.from('{}[]",:\\u0019eE+-. truefalsn')),
      maxLength: 12,
    })
    .map((text) => Buffer.from(text)),
);

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

function isJson(bytes: Buffer): boolean {
  if (!isUtf8(bytes)) return false;
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

export const jsonScan: FuzzTarget = {
  name: "json-scan",
  async run(random) {
    await skipsValues(random);
    await readsRequests(random);
    await splitsResponses(random);
  },
};

async function skipsValues(random: Random): Promise<void> {
  await random.check("skipValue reads every JSON text to its end", json, 1500, (text) => {
    const bytes = Buffer.from(text);
    assert(isJson(bytes), "the generator makes JSON");
    assert.equal(skipValue(bytes, 0, bytes.length, 0, "strict"), bytes.length);
    assert.equal(skipValue(bytes, 0, bytes.length, 0, "trusted"), bytes.length);
  });
  const title = "skipValue stops at the end of a value and never reads past the end given";
  await random.check(title, fc.tuple(json, json), 1500, ([text, next]) => {
    const bytes = Buffer.from(`${text},${next}`);
    const end = Buffer.byteLength(text);
    assert.equal(skipValue(bytes, 0, bytes.length, 0, "strict"), end);
    assert.equal(skipValue(bytes, 0, bytes.length, 0, "trusted"), end);
    // Only a number is still a value without its last byte. The bytes after it must not complete it.
    const cut = skipValue(bytes, 0, end - 1, 0, "strict");
    assert(cut === malformed || cut <= end - 1);
  });
}

async function readsRequests(random: Random): Promise<void> {
  for (const [kind, inputs] of Object.entries({ damaged: mutated, arbitrary: soup })) {
    const title = `readRequest agrees with JSON.parse on what is JSON, over ${kind} bytes`;
    await random.check<Buffer>(title, inputs, 4000, (bytes) => {
      assert.equal(readRequest(bytes, 50).kind !== "malformed", isJson(bytes), bytes.toString());
    });
  }
  const alone = "readRequest finds what JSON.parse finds, and passes on the bytes that were sent";
  await random.check(
    alone,
    fc.tuple(members, fc.boolean()),
    1500,
    ([{ known, text }, isInBatch]) => {
      const result = readRequest(Buffer.from(isInBatch ? `[1,${text}]` : text), 50);
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
    },
  );
  const again = fc.constantFrom(
    '"jsonrpc":"2.0"',
    '"method":"m"',
    '"params":[]',
    '"m\\u0065thod":""',
  );
  const twice = fc.tuple(members, again, fc.boolean());
  await random.check(
    "readRequest finds a repeated member, wherever it is",
    twice,
    500,
    ([{ text, known }, repeated, isFirst]) => {
      const body = isFirst ? `{${repeated},${text.slice(1)}` : `${text.slice(0, -1)},${repeated}}`;
      assert.deepEqual(readRequest(Buffer.from(body), 50), {
        kind: "single",
        item: { kind: "invalid", id: known.id },
      });
    },
  );
}

async function splitsResponses(random: Random): Promise<void> {
  const responses = fc.tuple(json, fc.nat({ max: 2 ** 50 }), fc.boolean(), spacing);
  await random.check(
    "splitResponse finds the bytes of a result, wherever it is",
    responses,
    1500,
    ([text, id, isFirst, space]) => {
      const parts = [`"id"${space}:${id}`, `"result":${space}${text}`, '"jsonrpc":"2.0"'];
      const body = Buffer.from(
        `${space}{${(isFirst ? parts : parts.toReversed()).join(`,${space}`)}}${space}`,
      );
      const split = splitResponse(body);
      assert(split !== undefined);
      assert.equal(split.kind, "result");
      assert.equal(split.id, id <= 999_999_999_999_999 ? id : -1);
      assert.equal(body.toString("utf8", split.start, split.end), text);
    },
  );
  const title =
    "splitResponse accepts nothing that JSON.parse would not, except inside long strings";
  await random.check(title, mutated, 1500, (bytes) => {
    const body = Buffer.concat([Buffer.from('{"id":1,"result":'), bytes, Buffer.from("}")]);
    const split = splitResponse(body);
    if (isJson(bytes)) assert(split !== undefined);
    // From 16 bytes on, a native search finds the end of a string.
    if (split !== undefined && !isJson(body)) assert(bytes.length > 16 && bytes.includes('"'));
  });
}
