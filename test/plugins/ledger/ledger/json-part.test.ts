import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import {
  elementOf,
  memberAt,
  membersOf,
  withoutWhiteSpace,
} from "../../../../plugins/ledger/ledger/json-part.ts";

describe("elementOf", () => {
  it("finds nothing in an empty array, an object or nothing at all", () => {
    for (const text of ["[]", "[ ]", "", "{}", '{"0":1}'])
      assert.equal(elementOf(text, 0), undefined);
    assert.equal(elementOf("[1]", -1), undefined);
  });

  it("agrees with JSON.parse", () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue()),
        fc.nat({ max: 5 }),
        fc.boolean(),
        (array, index, spaced) => {
          const found = elementOf(JSON.stringify(array, undefined, spaced ? 2 : 0), index);
          const wanted = JSON.stringify(array[index]) as string | undefined;
          assert.equal(found === undefined ? undefined : JSON.stringify(JSON.parse(found)), wanted);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("compact", () => {
  it("returns the same text as JSON.stringify without indentation", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.equal(
          withoutWhiteSpace(JSON.stringify(value, undefined, "\t \n")),
          JSON.stringify(value),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe("memberAt", () => {
  const block =
    '{"justifications":null, "block" : {"extrinsics":["0x"],"header":{"number": "0x1f"}}}';

  it("finds a member of nested objects, in text and in bytes", () => {
    assert.equal(memberAt(block, ["block", "header", "number"]), '"0x1f"');
    assert.equal(memberAt(Buffer.from(block), ["block", "header", "number"]), '"0x1f"');
  });

  it("finds nothing if the path does not exist", () => {
    for (const path of [
      ["header"],
      ["block", "number"],
      ["justifications", "x"],
      ["block", "extrinsics", "0"],
    ]) {
      assert.equal(memberAt(block, path), undefined, path.join("."));
    }
    assert.equal(memberAt("{}", ["a"]), undefined);
    assert.equal(memberAt('"block"', ["block"]), undefined);
  });
});

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
