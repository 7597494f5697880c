/** Tools with `hasOwnValidation`: their schemas are shown, but never compiled or run. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { bench, caller, tool } from "./fixture.ts";

/** Checking `blocking` with this pattern takes longer than the age of the universe. */
const hostilePattern = "^(a+)+$";
const blocking = `${"a".repeat(200)}!`;

/** As JSON, because an object literal cannot have a member `__proto__`. */
const hostileSchema = JSON.parse(`{
  "type": "object",
  "$schema": "https://example.org/unknown-draft",
  "$defs": { "cycle": { "$ref": "#/$defs/cycle" } },
  "properties": {
    "text": { "type": "string", "pattern": "${hostilePattern}" },
    "again": { "$ref": "#/$defs/cycle" },
    "nowhere": { "$ref": "https://example.org/nowhere" },
    "__proto__": { "type": "strin", "x-mcp-header": "not a header" }
  },
  "__proto__": { "isPolluted": true },
  "patternProperties": { "(": {} },
  "required": ["text"],
  "unknown": true
}`) as Record<string, unknown>;

const hostile = { inputSchema: hostileSchema, outputSchema: hostileSchema, hasOwnValidation: true };

test("every object reaches the tool, and every object is a result", async () => {
  const { catalogue, call } = bench(tool(hostile));
  assert.deepEqual(catalogue.list[0]?.inputSchema, hostileSchema);
  assert.deepEqual(catalogue.list[0].outputSchema, hostileSchema);
  for (const input of [{ text: blocking }, {}]) {
    const outcome = await call("echo", input);
    assert.ok(outcome.ok && outcome.isStructured === true);
    assert.equal(outcome.json, JSON.stringify(input));
  }
});

test("an input that is not an object is refused, and such a result is a bug that costs nothing", async () => {
  const by = caller();
  const { call } = bench(tool({ ...hostile, call: () => ({ ok: true, value: [] }) }));
  for (const input of [[], "text", null, undefined, 1]) {
    const outcome = await call("echo", input, by);
    assert.equal(!outcome.ok && outcome.code, "GATEWAY_SCHEMA_VIOLATION");
  }
  const outcome = await call("echo", {}, by);
  assert.equal(!outcome.ok && outcome.code, "GATEWAY_INTERNAL_ERROR");
  assert.deepEqual(by.charge.log, ["open 100", "release 100"]);
});

const deep = JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`) as unknown;
const cycle: Record<string, unknown> = { type: "object" };
cycle["self"] = cycle;
const large = { type: "object", description: "x".repeat(70_000) };
const refused: Readonly<Record<string, [Parameters<typeof tool>[0], RegExp]>> = {
  "whose input need not be an object": [{ inputSchema: {} }, /input schema whose root/],
  "whose result need not be an object": [
    { outputSchema: { type: "array" } },
    /output schema whose/,
  ],
  "that is nested too deeply": [{ inputSchema: { type: "object", deep } }, /nested too deeply/],
  "with a large schema": [{ outputSchema: large }, /expected at most 65536/],
  "with a large description": [{ description: large.description }, /expected at most 65536/],
  "that is not JSON": [{ inputSchema: cycle }, /cannot be used/],
  "that writes": [{ write: true }, /is a write tool/],
};
for (const [what, [wrong, problem]] of Object.entries(refused)) {
  test(`a tool ${what} is skipped`, () => {
    const { catalogue, counts } = bench();
    const hooks = { tools: [tool({ ...hostile, ...wrong }), tool({ name: "good" })] };
    const problems = catalogue.add(hooks, counts);
    assert.equal(problems.length, 1);
    assert.match(problems[0] ?? "", problem);
    assert.deepEqual(
      catalogue.list.map(({ name }) => name),
      ["good"],
    );
  });
}
