import assert from "node:assert/strict";
import { test } from "node:test";
import { optionTable } from "./option-table.ts";

const head = ["", "| option | type | default | meaning |", "| --- | --- | --- | --- |"];

/** Returns the row of an option. */
function row(schema: unknown, required: readonly string[] = []): string | undefined {
  const lines = optionTable({ type: "object", properties: { a: schema }, required });
  assert.deepEqual(lines.slice(0, 3), head);
  return lines[3];
}

test("a plugin without options has no table", () => {
  assert.deepEqual(
    [optionTable(undefined), optionTable({}), optionTable({ properties: {} })],
    [[], [], []],
  );
});

test("an option has its type, its limits and its default", () => {
  const described = { description: "Time limit." };
  assert.equal(
    row({ ...described, type: "integer", minimum: 1, maximum: 9, default: 3 }),
    "| `a` | integer from 1 to 9 | `3` | Time limit. |",
  );
  assert.equal(row({ type: "number", minimum: 0 }), "| `a` | number from 0 |  |  |");
  assert.equal(row({ type: "string", default: "" }), '| `a` | string | `""` |  |');
  assert.equal(row({ type: "boolean", default: false }), "| `a` | boolean | `false` |  |");
});

test("an option that must be set is required", () => {
  assert.equal(row({ type: "string" }, ["a"]), "| `a` | string | required |  |");
});

test("lists, choices and unions are described", () => {
  assert.equal(row({ enum: ["x", 1] }), '| `a` | `"x"`, `1` |  |  |');
  assert.equal(
    row({ type: "array", items: { type: "string" } }),
    "| `a` | array of string |  |  |",
  );
  assert.equal(row({ type: "array" }), "| `a` | array |  |  |");
  assert.equal(row({ type: ["string", "null"] }), "| `a` | string or null |  |  |");
  const choices = [{ type: "string" }, { type: "integer" }, { type: "string" }, true];
  assert.equal(row({ anyOf: choices }), "| `a` | string or integer or any |  |  |");
  assert.equal(row({ oneOf: choices.slice(0, 1) }), "| `a` | string |  |  |");
});

test("a schema that says nothing permits any value, and signs of tables are text", () => {
  assert.equal(row(true), "| `a` | any |  |  |");
  assert.equal(row({ default: "x|y", description: "a|b" }), '| `a` | any | `"x\\|y"` | a\\|b |');
});
