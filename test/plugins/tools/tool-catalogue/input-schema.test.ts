/** Tests of the compiler of input schemas, and of the violations that it reports. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  createSchemaCompiler,
  type InputCheck,
} from "../../../../plugins/tools/tool-catalogue/input-schema.ts";

function checkOf(schema: object): InputCheck {
  const check = createSchemaCompiler()({ type: "object", ...schema });
  assert.ok(typeof check === "function", String(check));
  return check;
}

const pair = {
  properties: { a: { type: "integer" }, b: { type: "string", minLength: 1 } },
  required: ["a", "b"],
  additionalProperties: false,
};

describe("a header for an argument", () => {
  const compile = (header: unknown): unknown =>
    createSchemaCompiler()({
      type: "object",
      properties: { a: { type: "string", "x-mcp-header": header } },
    });

  it("must be a token and does not change the input", () => {
    const check = compile("X-Region_1");
    assert.ok(typeof check === "function");
    for (const header of ["", "a b", "a:b", "é", "a\r\nb", 1, null, ["a"]]) {
      assert.match(String(compile(header)), /^has an invalid input schema: /);
    }
  });
});

describe("a reference in a schema", () => {
  it("may refer to an anchor", () => {
    const place = { $anchor: "place", type: "object", required: ["street"] };
    const check = checkOf({ $defs: { place }, properties: { at: { $ref: "#place" } } });
    assert.deepEqual(check({ at: { street: "x" } }), []);
    assert.equal(check({ at: {} })[0]?.path, "/at");
  });
});

describe("the violations of an input", () => {
  it("name every place and the reason", () => {
    assert.deepEqual(checkOf(pair)({ a: "1", b: "", c: 1 }), [
      { path: "", reason: 'unknown property "c"' },
      { path: "/a", reason: "must be integer" },
      { path: "/b", reason: "must NOT have fewer than 1 characters" },
    ]);
    assert.deepEqual(checkOf(pair)({}), [
      { path: "", reason: "must have required property 'a'" },
      { path: "", reason: "must have required property 'b'" },
    ]);
  });

  it("have one entry for an input that is not an object", () => {
    for (const input of [undefined, null, 1, "x", true, [], [{ a: 1 }]]) {
      assert.deepEqual(checkOf(pair)(input), [{ path: "", reason: "must be object" }]);
    }
  });

  it("are at most twenty", () => {
    const check = checkOf({ properties: { a: { type: "array", items: { type: "string" } } } });
    assert.equal(check({ a: Array.from({ length: 500 }, (_, i) => i) }).length, 20);
  });

  it("are limited to the first one if an input has too many values", () => {
    const check = checkOf({
      properties: { a: { type: "array", items: { type: "string" } }, b: { type: "string" } },
    });
    const many = Array.from({ length: 100_000 }, (_, i) => i);
    assert.deepEqual(check({ a: many, b: 1 }), [{ path: "/a/0", reason: "must be string" }]);
    assert.equal(check({ a: [many.slice(0, 999)], b: 1 }).length, 1);
    assert.equal(check({ a: [[1]], b: 1 }).length, 2);
  });

  it("repeat only a short part of the caller's text", () => {
    const name = "x".repeat(10_000);
    const closed = checkOf({ additionalProperties: false });
    const open = checkOf({ additionalProperties: { type: "string" } });
    for (const check of [closed, open]) {
      assert.ok(JSON.stringify(check({ [name]: 1 })).length < 300);
    }
  });
});
