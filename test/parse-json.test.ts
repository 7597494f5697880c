import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { parseJson } from "../src/parse-json.ts";

/** Each character as it is or escaped. */
const written = fc
  .array(fc.tuple(fc.constantFrom("a", "m", "/", "é", "日", "🙂"), fc.boolean()), { maxLength: 8 })
  .map((characters) => ({
    name: characters.map(([character]) => character).join(""),
    text: characters.map(([one, isEscaped]) => (isEscaped ? escaped(one) : one)).join(""),
  }));

function escaped(character: string): string {
  const units = character.split("");
  return units.map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
}

describe("JSON from a stranger", () => {
  test("is read the same whatever names with backslashes were read before, in its place or elsewhere", () => {
    const names = fc.uniqueArray(written, { selector: ({ name }) => name, maxLength: 4 });
    fc.assert(
      fc.property(names, (members) => {
        for (const [at, { name, text }] of members.entries()) {
          // What the engine takes the name for, if it does.
          const other = JSON.stringify(text.slice(0, name.length));
          const before = members.slice(0, at).map((one) => `"${one.text}":{}`);
          parseJson(`{${[...before, `${other}:{}`].join(",")}}`);
        }
        const text = members.map((one) => `"${one.text}":{}`).join(",");
        const expected = Object.fromEntries(members.map(({ name }) => [name, {}]));
        assert.deepEqual(parseJson(`{${text}}`), expected);
        assert.deepEqual(parseJson(`[[{${text}}]]`), [[expected]]);
      }),
    );
  });

  test("keeps the escapes that its strings need, and names that hold a backslash", () => {
    const value = { '\\u0061"\n\u2028': ["\\u0062", { "\\": '\t"\\/\u0000\ud800' }], "a/b": "\\n" };
    assert.deepEqual(parseJson(JSON.stringify(value)), value);
    assert.deepEqual(parseJson(String.raw`{"\\":"\u005c\u0022\u000a\/\u00e9\ud83d\ude42"}`), {
      "\\": '\\"\n/é🙂',
    });
  });

  test("is refused when it is not JSON or exceeds a bound", () => {
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
