/** The list of the catalogue, the tools that it refuses, and the compiler of their schemas with its violations. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import { bench, caller, startCatalogue, tool } from "./fixture.ts";
import {
  compileSchema,
  type InputCheck,
} from "../../../../plugins/tools/tool-catalogue/input-schema.ts";

test("another catalogue accepts the same tools, including schemas with an $id", async () => {
  const one = tool({ inputSchema: { $id: "https://example.org/echo", type: "object" } });
  await bench(one);
  await bench(one);
});

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

const deep = JSON.parse(`${"[".repeat(200)}${"]".repeat(200)}`) as unknown;
const cycle: Record<string, unknown> = { type: "object" };
cycle["self"] = cycle;
const large = { type: "object", description: "x".repeat(70_000) };

describe("a tool is skipped", () => {
  const table: readonly [string, Parameters<typeof tool>[0], RegExp][] = [
    ["without a name", { name: "" }, /^tool "" has an invalid name/],
    ["with a dash in its name", { name: "a-b" }, /has an invalid name/],
    ["with a digit first", { name: "1a" }, /has an invalid name/],
    ["with a name of 65", { name: "a".repeat(65) }, /has an invalid name/],
    ["without a type of object", { inputSchema: { type: "array" } }, /root is not/],
    ["without any type", { inputSchema: {} }, /root is not/],
    ["with oneOf at the root", { inputSchema: { type: "object", oneOf: [] } }, /`oneOf`/],
    ["with anyOf at the root", { inputSchema: { type: "object", anyOf: [] } }, /`anyOf`/],
    ["with allOf at the root", { inputSchema: { type: "object", allOf: [] } }, /`allOf`/],
    ["with $ref at the root", { inputSchema: { type: "object", $ref: "#" } }, /`\$ref`/],
    ["with an asynchronous schema", { inputSchema: { type: "object", $async: true } }, /asynchr/],
    ["with a misspelt keyword", { inputSchema: { type: "object", requird: [] } }, /requird/],
    [
      "with a reference to nowhere",
      { inputSchema: { type: "object", properties: { a: { $ref: "#/nowhere" } } } },
      /invalid input schema/,
    ],
    ["with a wrong output schema", { outputSchema: { type: "array" } }, /an output schema whose/],
    ["with a price below zero", { price: -1 }, /price/],
    ["with half a milli-CU", { price: 0.5 }, /price/],
    ["with no number as price", { price: Number.NaN }, /price/],
    ["with such an estimate", { price: { estimateMilliCu: 1e300, of: () => 1 } }, /price/],
    ["without a function", { call: undefined as never }, /has no function `call`/],
    ["that writes and says it reads", { write: true, annotations: { readOnlyHint: true } }, /read/],
    // The rest has validation of its own.
    ["whose input need not be an object", { ...hostile, inputSchema: {} }, /input schema whose/],
    ["whose result need not be", { ...hostile, outputSchema: { type: "array" } }, /output schema/],
    [
      "that is nested too deeply",
      { ...hostile, inputSchema: { type: "object", deep } },
      /nested too deeply/,
    ],
    ["with a large schema", { ...hostile, outputSchema: large }, /expected at most 65536/],
    ["with a large description", { ...hostile, description: large.description }, /at most 65536/],
    ["that is not JSON", { ...hostile, inputSchema: cycle }, /cannot be used/],
    ["that writes", { ...hostile, write: true }, /is a write tool/],
  ];
  for (const [title, wrong, problem] of table) {
    it(title, async () => {
      const tools = [tool(wrong), tool({ name: "good" })];
      const { catalogue, problems, call } = await startCatalogue({ acme: { tools } });
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? "", problem);
      assert.deepEqual(
        catalogue.list.map(({ name }) => name),
        ["good"],
      );
      const outcome = await call(wrong?.name ?? "echo", {});
      assert.equal(!outcome.ok && outcome.code, "GATEWAY_TOOL_NOT_FOUND");
    });
  }

  it("if its name is taken, even by another plugin", async () => {
    const { catalogue, problems } = await startCatalogue({
      first: { tools: [tool()] },
      second: { tools: [tool(), tool()] },
    });
    assert.deepEqual(problems, ['tool "echo" already exists', 'tool "echo" already exists']);
    assert.equal(catalogue.list.length, 1);
  });
});

describe("documents", () => {
  const resource = {
    uri: "docs://a",
    name: "a",
    mimeType: "text/markdown",
    capability: undefined,
    read: () => "a",
  };

  it("are listed in order; each URI must be unique, absolute and without a fragment", async () => {
    const resources = [
      resource,
      resource,
      { ...resource, uri: "docs://b#c" },
      { ...resource, uri: "/d" },
      { ...resource, uri: "docs://e" },
    ];
    const { catalogue, problems } = await startCatalogue({ acme: { tools: [], resources } });
    assert.equal(problems.length, 3);
    assert.deepEqual(
      catalogue.resources.map(({ uri }) => uri),
      ["docs://a", "docs://e"],
    );
  });

  it("are counted for their plugin when they are read, whatever their class", async () => {
    const clock = manualClock();
    class Page {
      readonly uri = "docs://page";
      readonly name = "page";
      readonly mimeType = "text/plain";
      readonly capability = undefined;
      #reads = 0;
      read(): string {
        clock.advance(20);
        return `read ${++this.#reads} times`;
      }
    }
    const broken = {
      ...resource,
      uri: "docs://broken",
      read: () => Promise.reject(new Error("broken")),
    };
    const prompt = {
      name: "ask",
      description: "Asks.",
      capability: undefined,
      get: () => ({ ok: true, messages: [] }) as const,
    };
    const hooks = { tools: [], resources: [Object.freeze(new Page()), broken], prompts: [prompt] };
    const { catalogue, metrics, problems } = await startCatalogue({ acme: hooks }, { clock });
    assert.deepEqual(problems, []);
    const [first, second] = catalogue.resources;
    assert.deepEqual([first?.name, await first?.read()], ["page", "read 1 times"]);
    await assert.rejects(async () => second?.read(), /broken/);
    const { principal } = caller();
    void catalogue.prompts[0]?.get({}, { principal, dialogue: undefined });
    const samples = (name: string): unknown[] =>
      metrics
        .read(`sluice_plugin_${name}_total`)
        .map(({ labels: { plugin, hook }, value }) => [plugin, hook, value]);
    assert.deepEqual(samples("seconds"), [
      ["acme", "resource", 0.02],
      ["acme", "prompt", 0],
    ]);
    assert.deepEqual(samples("timed"), [
      ["acme", "resource", 2],
      ["acme", "prompt", 1],
    ]);
    assert.deepEqual(samples("errors"), [["acme", "resource", 1]]);
  });
});

test("every object reaches the tool, and every object is a result", async () => {
  const { catalogue, call } = await bench(tool(hostile));
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
  const { call } = await bench(tool({ ...hostile, call: () => ({ ok: true, value: [] }) }));
  for (const input of [[], "text", null, undefined, 1]) {
    const outcome = await call("echo", input, by);
    assert.equal(!outcome.ok && outcome.code, "GATEWAY_SCHEMA_VIOLATION");
  }
  const outcome = await call("echo", {}, by);
  assert.equal(!outcome.ok && outcome.code, "GATEWAY_INTERNAL_ERROR");
  assert.deepEqual(by.charge.log, ["open 100", "release 100"]);
});

function checkOf(schema: object): InputCheck {
  const check = compileSchema({ type: "object", ...schema });
  assert.ok(typeof check === "function", String(check));
  return check;
}

const pair = {
  properties: { a: { type: "integer" }, b: { type: "string", minLength: 1 } },
  required: ["a", "b"],
  additionalProperties: false,
};

test("a header for an argument must be a token", () => {
  const compile = (header: unknown): unknown =>
    compileSchema({
      type: "object",
      properties: { a: { type: "string", "x-mcp-header": header } },
    });
  assert.equal(typeof compile("X-Region_1"), "function");
  for (const header of ["", "a b", "a:b", "é", "a\r\nb", 1, null, ["a"]]) {
    assert.match(String(compile(header)), /^has an invalid input schema: /);
  }
});

test("a reference in a schema may refer to an anchor", () => {
  const place = { $anchor: "place", type: "object", required: ["street"] };
  const check = checkOf({ $defs: { place }, properties: { at: { $ref: "#place" } } });
  assert.deepEqual(check({ at: { street: "x" } }), []);
  assert.equal(check({ at: {} })[0]?.path, "/at");
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
