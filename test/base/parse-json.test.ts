/** Tests of the JSON parser that avoids the names which V8 misreads. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { parseJson } from "../../src/base/parse-json.ts";

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
