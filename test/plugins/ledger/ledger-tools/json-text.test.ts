/** Parts of a JSON text, compared with JSON.parse. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { membersOf, parseOrUndefined } from "../../../../plugins/ledger/ledger/json-part.ts";

const name = fc.string({ maxLength: 4 }).filter((text) => JSON.stringify(text) === `"${text}"`);

describe("the members of a JSON object", () => {
  it("are those that JSON.parse finds, with any white space between them", () => {
    const objects = fc.dictionary(name, fc.jsonValue({ maxDepth: 3 }), { noNullPrototype: true });
    fc.assert(
      fc.property(objects, fc.constantFrom(undefined, 1, "\t"), (object, space) => {
        const text = ` ${JSON.stringify(object, undefined, space)}\n`;
        const members = membersOf(text);
        assert(members !== undefined);
        const found = [...members].map(([key, value]) => [key, JSON.parse(value)] as const);
        assert.deepEqual(new Map(found), new Map(Object.entries(JSON.parse(text) as object)));
      }),
      { numRuns: 500 },
    );
  });

  it("keep their text", () => {
    const members = membersOf('{ "a" : 1.0 , "b":[ 1 , "]" ],"c":{"d" :"\\\\\\"}"}, "e":true}');
    assert.deepEqual(
      [...(members ?? [])],
      [
        ["a", "1.0"],
        ["b", '[ 1 , "]" ]'],
        ["c", '{"d" :"\\\\\\"}"}'],
        ["e", "true"],
      ],
    );
  });

  it("are undefined for text that is not an object", () => {
    for (const text of ["", "null", "[]", '"{}"', "1", " ", "[{}]"]) {
      assert.equal(membersOf(text), undefined);
    }
    assert.equal(membersOf("{}")?.size, 0);
    assert.equal(membersOf(" { } ")?.size, 0);
  });

  it("of text that is not JSON: the function returns in any case", () => {
    const characters = fc.constantFrom("{", "}", "[", "]", '"', ",", ":", "\\", " ", "1", "a");
    fc.assert(
      fc.property(fc.string({ unit: characters, maxLength: 30 }), (text) => {
        const members = membersOf(`{${text}`);
        assert(members === undefined || members.size <= text.length);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("a parseOrUndefined text", () => {
  it("is undefined if the text is not JSON", () => {
    assert.equal(parseOrUndefined(undefined), undefined);
    assert.equal(parseOrUndefined("{"), undefined);
    assert.equal(parseOrUndefined("null"), null);
  });
});
