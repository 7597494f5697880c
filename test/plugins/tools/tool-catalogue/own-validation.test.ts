/** Tools with `hasOwnValidation`: their schemas are shown, but never compiled or run. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
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

test("every list and document shows the schemas unchanged", async (t) => {
  const folder = temporaryFolder(t);
  const plugin = join(folder, "remote.ts");
  writeFileSync(
    plugin,
    `const schema = JSON.parse(${JSON.stringify(JSON.stringify(hostileSchema))});
     const call = (value) => ({ ok: true, value });
     const tool = {
       name: "remote", description: "x", inputSchema: schema, outputSchema: schema, price: 1, call,
       hasOwnValidation: true, capability: undefined,
     };
     export default { kind: "tools", name: "remote", description: "x", start: () => ({ tools: [tool] }) };`,
  );
  const pipeline = `
version: 1
server: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
store: { data: ${join(folder, "data")} }
plugins: { remote: ${plugin} }
tools: [remote]
lists:
  agents: [request-id, authenticate, { authorize: { require: key } }, meter]
routes:
  - { path: /mcp, methods: [POST, DELETE], run: [{ use: agents }], to: mcp }
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /openapi.json, methods: [GET], run: [], to: openapi }
`;
  await using gateway = await startTestGateway({ pipeline });
  const post = async (path: string, body: object): Promise<string> => {
    const headers = {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-06-18",
    };
    const message = JSON.stringify({ jsonrpc: "2.0", id: 1, ...body });
    return (await fetch(gateway.url + path, { method: "POST", headers, body: message })).text();
  };
  const shown = JSON.stringify(hostileSchema);
  const texts = [
    await post("/mcp", { method: "tools/list" }),
    await post("/rpc", { method: "tools.list" }),
    await (await fetch(`${gateway.url}/openapi.json`)).text(),
  ];
  for (const text of texts) assert.ok(text.includes(shown), text);
  const params = { name: "remote", arguments: { text: blocking } };
  const called = await post("/mcp", { method: "tools/call", params });
  assert.ok(called.includes(`"structuredContent":{"text":"${blocking}"}`), called);
  assert.equal(Object.hasOwn(Object.prototype, "isPolluted"), false);
});
