/** Tests of the readers of JSON text: responses of nodes, and parts of params and results. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import {
  elementOf,
  memberAt,
  withoutWhiteSpace,
} from "../../../../plugins/ledger/ledger/json-part.ts";
import {
  splitBatch,
  splitResponse,
} from "../../../../plugins/ledger/ledger/pool/split-response.ts";

/** Kind, bytes and id of a response. Undefined if the text is not a response. */
function split(text: string): readonly [string, string, number] | undefined {
  const bytes = Buffer.from(text);
  const found = splitResponse(bytes);
  return found && [found.kind, bytes.toString("utf8", found.start, found.end), found.id];
}

describe("splitResponse", () => {
  it("finds a result in either order of members", () => {
    assert.deepEqual(split('{"jsonrpc":"2.0","id":7,"result":{"peers":3}}'), [
      "result",
      '{"peers":3}',
      7,
    ]);
    assert.deepEqual(split(' { "result" : null , "id" : 0 }\n'), ["result", "null", 0]);
  });

  it("finds an error, even without a code or with a null result next to it", () => {
    assert.deepEqual(split('{"id":1,"error":{"message":"x"}}'), ["error", '{"message":"x"}', 1]);
    assert.deepEqual(split('{"error":{"code":-1},"result":null,"id":1}'), [
      "error",
      '{"code":-1}',
      1,
    ]);
    assert.deepEqual(split('{"result":null,"error":{"code":-1},"id":1}'), [
      "error",
      '{"code":-1}',
      1,
    ]);
    assert.deepEqual(split('{"result":5,"error":null,"id":1}'), ["result", "5", 1]);
  });

  it("returns only ids of the form that the gateway uses", () => {
    for (const id of ["null", '"7"', "-7", "7.0", "7e1", "1234567890123456", "[7]"]) {
      assert.equal(split(`{"id":${id},"result":1}`)?.[2], -1, id);
    }
    assert.equal(split('{"result":1}')?.[2], -1);
  });

  it("refuses text that is not a response", () => {
    const others = [
      "",
      " ",
      "null",
      "[]",
      "{}",
      '{"id":1}',
      '{"id":1,"error":null}',
      '{"id":1,"error":"text"}',
      '{"id":1,"error":[]}',
      '{"id":1,"result":1,"result":2}',
      '{"id":1,"error":{},"error":{}}',
      '{"id":1,"result":1,"error":{}}',
      '{"id":1,"error":{},"result":1}',
      '{"id":1,"result":',
      '{"id":1,"result":1',
      '{"id":1,"result":1}}',
      '{"id":1,"result":1}{"id":2,"result":2}',
      '{"id":1,"result":"0x',
      `{"id":1,"result":"${"a".repeat(100)}`,
      `{"id":1,"result":"${"a".repeat(100)}\\"}`,
      "<html>502</html>",
    ];
    for (const text of others) assert.equal(split(text), undefined, text);
  });
});

describe("splitBatch", () => {
  const batch = (text: string): readonly string[] | undefined => {
    const bytes = Buffer.from(text);
    return splitBatch(bytes)?.map(
      ({ kind, start, end, id }) => `${id} ${kind} ${bytes.toString("utf8", start, end)}`,
    );
  };

  it("splits the responses in the order in which they came", () => {
    assert.deepEqual(batch(' [ {"id":2,"result":"b"} , {"error":{},"id":1}]'), [
      '2 result "b"',
      "1 error {}",
    ]);
    assert.deepEqual(batch("[]"), []);
  });

  it("treats a single object as the answer to the whole batch", () => {
    assert.deepEqual(batch('{"id":null,"error":{"code":-32010}}'), ['-1 error {"code":-32010}']);
  });

  it("refuses incomplete responses", () => {
    const others = [
      "",
      "[",
      '[{"id":1,"result":1}',
      '[{"id":1,"result":1},]',
      "[1]",
      '[{"id":1}]',
      "[] 1",
    ];
    for (const text of others) assert.equal(batch(text), undefined, text);
    assert.equal(batch('[{"id":1,"result":1}] x'), undefined);
  });
});

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

  it("finds each member that JSON.parse finds, with any white space between them", () => {
    const names = fc
      .string({ maxLength: 4 })
      .filter((text) => JSON.stringify(text) === `"${text}"`);
    const objects = fc.dictionary(names, fc.jsonValue({ maxDepth: 3 }), { noNullPrototype: true });
    fc.assert(
      fc.property(objects, fc.constantFrom(undefined, 1, "\t"), (object, space) => {
        const text = ` ${JSON.stringify(object, undefined, space)}\n`;
        for (const [name, value] of Object.entries(JSON.parse(text) as object))
          assert.deepEqual(JSON.parse(memberAt(text, [name]) ?? ""), value);
        assert.equal(memberAt(text, ["absent"]), undefined);
      }),
      { numRuns: 500 },
    );
  });

  it("keeps the text of a member", () => {
    const object = '{ "a" : 1.0 , "b":[ 1 , "]" ],"c":{"d" :"\\\\\\"}"}, "e":true}';
    assert.equal(memberAt(object, ["a"]), "1.0");
    assert.equal(memberAt(object, ["b"]), '[ 1 , "]" ]');
    assert.equal(memberAt(object, ["c"]), '{"d" :"\\\\\\"}"}');
    assert.equal(memberAt(object, ["e"]), "true");
  });

  it("finds nothing in text that is not an object", () => {
    for (const text of ["", "null", "[]", '"{}"', "1", " ", "[{}]"])
      assert.equal(memberAt(text, ["a"]), undefined);
  });

  it("returns in any case for text that is not JSON", () => {
    const characters = fc.constantFrom("{", "}", "[", "]", '"', ",", ":", "\\", " ", "1", "a");
    fc.assert(
      fc.property(fc.string({ unit: characters, maxLength: 30 }), (text) => {
        assert((memberAt(`{${text}`, ["a"])?.length ?? 0) <= text.length);
      }),
      { numRuns: 2000 },
    );
  });
});
