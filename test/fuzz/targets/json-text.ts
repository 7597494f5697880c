/**
 * Hostile JSON that is parsed as a whole: names with escapes, repeated members, garbled frames of the encrypted stream.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { isFault } from "../../../plugins/confidential/protocol/fault.ts";
import { readHello } from "../../../plugins/confidential/protocol/hello.ts";
import { readCore, readKeyset } from "../../../plugins/confidential/protocol/keyset.ts";
import { readReport } from "../../../plugins/confidential/protocol/usage-report.ts";
import { readJsonObject } from "../../../plugins/confidential/protocol/strict-json.ts";
import {
  readCancelFrame,
  readTextFrame,
} from "../../../plugins/confidential/protocol/text-frames.ts";
import { parseJson } from "../../../src/base/parse-json.ts";
import { bytesOf, helloWith, keysetWith } from "../../plugins/confidential/protocol/session.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget, Random } from "../target.ts";

/** A member name, and a spelling with some of its characters escaped. */
const spelledName = fc
  .array(fc.tuple(fc.constantFrom("a", "m", "/", "é", "日", "🙂"), fc.boolean()), { maxLength: 8 })
  .map((characters) => ({
    name: characters.map(([character]) => character).join(""),
    text: characters.map(([one, isEscaped]) => (isEscaped ? escaped(one) : one)).join(""),
  }));

function escaped(character: string): string {
  const units = character.split("");
  return units.map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

interface Written {
  readonly text: string;
  readonly isRepeated: boolean;
}

/** No name begins with a backslash: V8 14.6 misreads escaped names of the second of two such objects. */
const memberNames = ["a", "b", "\\u0061", "{", "a\\\\", "__proto__"];
const scalars = ["1", "true", "null", '"a"', '"{"', '"\\""', '"a\\\\"', '",\\"a\\":"', "-2.5e3"];

const { object: writtenObject } = fc.letrec<{ value: Written; object: Written }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(...scalars).map((text) => ({ text, isRepeated: false })),
    fc.array(tie("value"), { maxLength: 3 }).map((items) => ({
      text: `[ ${items.map(({ text }) => text).join(" , ")} ]`,
      isRepeated: items.some(({ isRepeated }) => isRepeated),
    })),
    tie("object"),
  ),
  object: fc
    .array(fc.tuple(fc.constantFrom(...memberNames), tie("value")), { maxLength: 4 })
    .map((members) => {
      const names = members.map(([name]): unknown => JSON.parse(`"${name}"`));
      const text = members.map(([name, { text: member }]) => `"${name}" :${member}`).join(",");
      const isRepeated =
        new Set(names).size < names.length || members.some(([, member]) => member.isRepeated);
      return { text: `{${text}}`, isRepeated };
    }),
}));

const readers = { readHello, readCore, readKeyset, readReport, readTextFrame, readCancelFrame };

export const jsonText: FuzzTarget = {
  name: "json-text",
  async run(random) {
    await readsNames(random);
    await random.check(
      "strict JSON accepts exactly the objects without a repeated member",
      writtenObject,
      2000,
      ({ text, isRepeated }) => {
        const read = readJsonObject(bytesOf(text), 1_000_000);
        if (isRepeated) assert.equal(read, undefined);
        else assert.deepEqual(read, JSON.parse(text));
      },
    );
    await readsFrames(random);
  },
};

async function readsNames(random: Random): Promise<void> {
  const names = fc.uniqueArray(spelledName, { selector: ({ name }) => name, maxLength: 4 });
  const title = "parseJson reads names the same, whatever names with backslashes were read before";
  await random.check(title, names, 300, (members) => {
    for (const [at, { name, text }] of members.entries()) {
      // The name that the engine mistakes this one for, if it does.
      const other = JSON.stringify(text.slice(0, name.length));
      const before = members.slice(0, at).map((one) => `"${one.text}":{}`);
      parseJson(`{${[...before, `${other}:{}`].join(",")}}`);
    }
    const text = members.map((one) => `"${one.text}":{}`).join(",");
    const expected = Object.fromEntries(members.map(({ name }) => [name, {}]));
    assert.deepEqual(parseJson(`{${text}}`), expected);
    assert.deepEqual(parseJson(`[[{${text}}]]`), [[expected]]);
  });
}

async function readsFrames(random: Random): Promise<void> {
  const samples = [
    helloWith(),
    keysetWith({ models: [{ id: "demo", hash: "sha256:00" }] }),
    bytesOf('{"type":"cancel","rid":1}'),
    bytesOf('{"type":"error","code":"BAD_FRAME","error":"no"}'),
    bytesOf('{"type":"done","rid":1,"usage":{"prompt_tokens":1,"usedCUMilli":30}}'),
  ];
  const garbled = fc.oneof(
    fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
    fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
    mutantsOf(fc.constantFrom(...samples), 4),
  );
  for (const [name, read] of Object.entries(readers)) {
    const title = `${name} never throws, and accepts only what strict JSON accepts`;
    await random.check(title, garbled, 2000, (bytes) => {
      const value = read(Uint8Array.from(bytes));
      if (value === undefined || (typeof value === "object" && isFault(value))) return;
      assert.notEqual(readJsonObject(bytes, bytes.length), undefined);
    });
  }
}
