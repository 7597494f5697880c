/** Tests of the compiler of JSON Schemas, whose validators the build records. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { draft2020 } from "../../src/base/json-schema.ts";
import { recordSchemas, schemaCompiler } from "../../src/base/schema-compiler.ts";

test("a compiler validates with its formats, and records its schemas for the build", () => {
  const records = recordSchemas();
  const compile = schemaCompiler("of a test", {
    formatTests: { even: (text) => text.length % 2 === 0 },
  });
  const isEven = compile({ type: "string", format: "even" });
  assert.equal(isEven("ab"), true);
  assert.equal(isEven("abc"), false);
  assert.equal(isEven.errors?.[0]?.keyword, "format");
  assert.deepEqual(
    [...(records.get("of a test")?.schemas.values() ?? [])],
    [{ type: "string", format: "even" }],
  );
});

test("two schemas may have the same $id, also after one that is refused", () => {
  const compile = schemaCompiler("of ids", {});
  const $id = "https://example.com/a";
  assert.throws(() => compile({ $id, type: "string", pattern: "(" }), /regular expression/i);
  assert.equal(compile({ $id, type: "string" })("a"), true);
  assert.equal(compile({ $id, type: "number" })("a"), false);
});

test("a schema that is not one of the drafts is refused", () => {
  const compile = schemaCompiler("of drafts", { drafts: [draft2020] });
  assert.throws(() => compile({ type: "strng" }), /schema is invalid/);
  assert.throws(() => compile({ $schema: "https://example.com/draft" }), /no schema with key/);
});
