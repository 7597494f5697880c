import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  splitBatch,
  splitResponse,
} from "../../../../../plugins/ledger/ledger/pool/split-response.ts";

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
