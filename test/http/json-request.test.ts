/** Reads JSON-RPC bodies: which ones are calls, and that no byte of them changes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readRequest } from "../../src/http/json/request.ts";
import type { RpcItem } from "../../src/http/json/envelope.ts";

const read = (body: string | Buffer): ReturnType<typeof readRequest> =>
  readRequest(Buffer.from(body), 50);

function single(body: string): RpcItem {
  const result = read(body);
  assert.equal(result.kind, "single", body);
  assert(result.kind === "single");
  return result.item;
}

const invalid = (id: string): RpcItem => ({ kind: "invalid", id });
const call = (id: string, method: string, params: string): RpcItem => ({
  kind: "call",
  id,
  method,
  params,
});

describe("a single request", () => {
  it("is read into id, method and params as the client wrote them", () => {
    assert.deepEqual(
      single('{"jsonrpc":"2.0","id":1,"method":"system_chain","params":[]}'),
      call("1", "system_chain", "[]"),
    );
    assert.deepEqual(
      single('{"params":[1.0, 1e2,-0, "\\u00e9\\/"],"method":"m","id":"a\\"b","jsonrpc":"2.0"}'),
      call('"a\\"b"', "m", '[1.0, 1e2,-0, "\\u00e9\\/"]'),
    );
  });

  it("keeps numbers that a double cannot hold", () => {
    const huge = "340282366920938463463374607431768211455";
    assert.deepEqual(
      single(`{"jsonrpc":"2.0","id":${huge},"method":"m","params":[${huge}]}`),
      call(huge, "m", `[${huge}]`),
    );
  });

  it("accepts text, any number and null as id, and returns it as sent", () => {
    for (const id of ["null", "0", "-1", "1.5", "1e400", '""', '"é✓"', '"\\ud83d\\ude00"']) {
      assert.deepEqual(single(`{"jsonrpc":"2.0","id":${id},"method":"m"}`), call(id, "m", ""), id);
    }
  });

  it("allows white space wherever JSON allows it", () => {
    assert.deepEqual(
      single(' \n\t\r{ "jsonrpc" : "2.0" , "id" :\t7 , "method" : "m" , "params" : [ 1 ] } \r\n'),
      call("7", "m", "[ 1 ]"),
    );
  });

  it("accepts named params, and treats null params as missing", () => {
    assert.deepEqual(
      single('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"b":[]}}}'),
      call("1", "m", '{"a":{"b":[]}}'),
    );
    assert.deepEqual(
      single('{"jsonrpc":"2.0","id":1,"method":"m","params":null}'),
      call("1", "m", ""),
    );
  });

  it("decodes the escapes in the name of a method", () => {
    assert.deepEqual(
      single('{"jsonrpc":"2.0","id":1,"method":"\\u0061uthor_\\u0072otateKeys"}'),
      call("1", "author_rotateKeys", ""),
    );
  });

  it("decodes the escapes in member names and the version", () => {
    assert.deepEqual(
      single('{"\\u006asonrpc":"2\\u002e0","i\\u0064":1,"meth\\u006fd":"m","p\\u0061rams":[2]}'),
      call("1", "m", "[2]"),
    );
  });

  it("ignores unknown members, whatever their values", () => {
    assert.deepEqual(
      single('{"x":{"id":9,"method":"n"},"jsonrpc":"2.0","id":1,"method":"m","Id":2,"":[[]]}'),
      call("1", "m", ""),
    );
  });

  it("is a notification when it has no id", () => {
    assert.deepEqual(single('{"jsonrpc":"2.0","method":"m","params":[1]}'), {
      kind: "notification",
      method: "m",
      params: "[1]",
    });
  });
});

describe("an invalid request", () => {
  it("is one without version 2.0, and keeps its id", () => {
    for (const version of ['"1.0"', '"2"', "2.0", "null", '" 2.0"', '"2.00"', '["2.0"]']) {
      assert.deepEqual(single(`{"jsonrpc":${version},"id":5,"method":"m"}`), invalid("5"), version);
    }
    assert.deepEqual(single('{"id":"x","method":"m"}'), invalid('"x"'));
  });

  it("is invalid if its method is missing or not a string", () => {
    assert.deepEqual(single('{"jsonrpc":"2.0","id":5}'), invalid("5"));
    for (const method of ["1", "null", "true", '["m"]', '{"m":1}']) {
      assert.deepEqual(single(`{"jsonrpc":"2.0","id":5,"method":${method}}`), invalid("5"), method);
    }
  });

  it("is one with scalar params", () => {
    for (const params of ["1", '"x"', "true", "false", "0.5"]) {
      assert.deepEqual(
        single(`{"jsonrpc":"2.0","id":5,"method":"m","params":${params}}`),
        invalid("5"),
        params,
      );
    }
  });

  it("is answered with id null when its id is an object, array or boolean", () => {
    for (const id of ["{}", "[]", "[1]", "true", "false"]) {
      assert.deepEqual(single(`{"jsonrpc":"2.0","id":${id},"method":"m"}`), invalid("null"), id);
    }
  });

  it("is answered with id null when it has none", () => {
    assert.deepEqual(single("{}"), invalid("null"));
    assert.deepEqual(single('{"x":1}'), invalid("null"));
    assert.deepEqual(single('{"jsonrpc":"1.0","method":"m"}'), invalid("null"));
    assert.deepEqual(single('{"jsonrpc":"2.0","method":1}'), invalid("null"));
  });

  it("has no duplicate members, even if one name is escaped", () => {
    const twice = [
      '"jsonrpc":"2.0","jsonrpc":"2.0","id":5,"method":"m"',
      '"jsonrpc":"2.0","id":5,"method":"m","method":"m"',
      '"jsonrpc":"2.0","id":5,"method":"system_chain","\\u006dethod":"author_rotateKeys"',
      '"jsonrpc":"2.0","id":5,"method":"m","params":[],"param\\u0073":[1]',
      '"jsonrpc":"2.0","id":5,"method":"m","params":null,"params":[1]',
      '"jsonrpc":"2.0","id":5,"method":"m","x":1,"x":2',
      '"jsonrpc":"2.0","id":5,"method":"m","x":1,"\\u0078":2',
    ];
    for (const members of twice) assert.deepEqual(single(`{${members}}`), invalid("5"), members);
  });

  it("is answered without an id if the id itself is duplicate", () => {
    assert.deepEqual(single('{"jsonrpc":"2.0","id":5,"id":5,"method":"m"}'), invalid("null"));
    assert.deepEqual(single('{"jsonrpc":"2.0","id":5,"\\u0069d":6,"method":"m"}'), invalid("null"));
    assert.deepEqual(single('{"jsonrpc":"2.0","id":[],"id":6,"method":"m"}'), invalid("null"));
  });

  it("is one with too many unknown members", () => {
    const members = (n: number): string =>
      Array.from({ length: n }, (_, i) => `"x${i}":1,`).join("");
    const body = (n: number): string => `{${members(n)}"jsonrpc":"2.0","id":5,"method":"m"}`;
    assert.equal(single(body(64)).kind, "call");
    assert.deepEqual(single(body(65)), invalid("5"));
  });
});

describe("a batch", () => {
  const item = (id: number): string => `{"jsonrpc":"2.0","id":${id},"method":"m"}`;
  const batchOf = (n: number): string =>
    `[${Array.from({ length: n }, (_, i) => item(i)).join(",")}]`;

  it("keeps the order of its items, and each item fails separately", () => {
    assert.deepEqual(
      read(`[ ${item(1)} , 1, [], "x", null, {"id":2} ,{"jsonrpc":"2.0","method":"m"}]`),
      {
        kind: "batch",
        items: [
          call("1", "m", ""),
          invalid("null"),
          invalid("null"),
          invalid("null"),
          invalid("null"),
          invalid("2"),
          { kind: "notification", method: "m", params: "" },
        ],
      },
    );
  });

  it("keeps nothing of the previous item", () => {
    const result = read('[{"jsonrpc":"2.0","id":1,"method":"m","params":[1],"x":1},{"x":1}]');
    assert(result.kind === "batch");
    assert.deepEqual(result.items[1], invalid("null"));
    const calls = read(`[{"jsonrpc":"2.0","id":1,"method":"m","params":[1]},${item(2)}]`);
    assert(calls.kind === "batch");
    assert.deepEqual(calls.items[1], call("2", "m", ""));
  });

  it("contains one to fifty items", () => {
    assert.deepEqual(read("[]"), { kind: "invalid" });
    assert.deepEqual(read(" [ ] "), { kind: "invalid" });
    const fifty = read(batchOf(50));
    assert(fifty.kind === "batch");
    assert.equal(fifty.items.length, 50);
    assert.deepEqual(read(batchOf(51)), { kind: "invalid" });
  });

  it("is malformed as a whole if any part of it is, even beyond the fiftieth item", () => {
    assert.deepEqual(read(`[${item(1)},{"id":}]`), { kind: "malformed" });
    assert.deepEqual(read(`[${item(1)},]`), { kind: "malformed" });
    assert.deepEqual(read(`[${item(1)}`), { kind: "malformed" });
    assert.deepEqual(read(`[${item(1)}]]`), { kind: "malformed" });
    assert.deepEqual(read(`${batchOf(60).slice(0, -1)},{"a"}]`), { kind: "malformed" });
  });
});

describe("a body that is not a request", () => {
  it("is invalid when it is a scalar", () => {
    for (const body of ["1", "-0.5e+3", '"x"', "true", "false", "null", ' "a\\n" ']) {
      assert.deepEqual(read(body), { kind: "invalid" }, body);
    }
  });

  it("is malformed when it is not JSON", () => {
    const bodies = [
      ...'{ [ } ] , : " \\ - + . e t'.split(" "),
      "",
      " ",
      "{}{}",
      "[] []",
      "tru",
      "nul",
      "undefined",
      "NaN",
      "01",
      "1.",
      ".5",
      "1e",
      "1e+",
      "-",
      "0x1",
      "'a'",
      '"a',
      '"\\x"',
      '"\\u12"',
      '"\\u12g4"',
      '"\t"',
      '"\n"',
      '{"a":1,}',
      "{,}",
      "{a:1}",
      '{"a" 1}',
      '{"a":}',
      '{"a"}',
      "[1,]",
      "[,1]",
      "[1 2]",
      "/* */{}",
      "\ufeff{}",
      "{}\u00a0",
      "{}\0",
    ];
    for (const body of bodies) {
      assert.deepEqual(read(body), { kind: "malformed" }, JSON.stringify(body));
    }
  });

  it("is malformed when it is not UTF-8", () => {
    for (const hex of ["ff", "c328", "eda080", "c0af", "f4908080", "e282"]) {
      const body = Buffer.concat([
        Buffer.from('{"jsonrpc":"2.0","id":"'),
        Buffer.from(hex, "hex"),
        Buffer.from('","method":"m"}'),
      ]);
      assert.deepEqual(read(body), { kind: "malformed" }, hex);
    }
  });

  it("is malformed when it is nested deeper than 128", () => {
    const nested = (depth: number): string =>
      `{"jsonrpc":"2.0","id":1,"method":"m","params":${"[".repeat(depth)}${"]".repeat(depth)}}`;
    assert.equal(read(nested(127)).kind, "single");
    assert.deepEqual(read(nested(128)), { kind: "malformed" });
    assert.deepEqual(read("[".repeat(1_000_000)), { kind: "malformed" });
    assert.deepEqual(read('{"a":'.repeat(1_000_000)), { kind: "malformed" });
  });
});

describe("a large body", () => {
  it("is read like a small one", () => {
    const data = "ab".repeat(500_000);
    assert.deepEqual(
      single(`{"jsonrpc":"2.0","id":"é","method":"state_call","params":["x","0x${data}"]}`),
      call('"é"', "state_call", `["x","0x${data}"]`),
    );
  });
});
