/** Requests that the step `validate` refuses, and the agent that `agent-headers` reads from the headers of a request. */
import assert from "node:assert/strict";
import { after, describe, it, test } from "node:test";
import { type TestAnswer, type TestRequest, testStep } from "sluice-gateway/testing";
import * as fc from "fast-check";
import type { Agent } from "sluice-gateway/services";
import validate, { parseQuery } from "../../../plugins/edge/validate/index.ts";
import { fakeExchange, fakeHost } from "../fakes.ts";
import { withDefaults } from "../with-defaults.ts";
import agentHeaders from "../../../plugins/edge/agent-headers/index.ts";

type Options = Partial<Parameters<typeof validate.start>[0]>;

let loaded: Options = { body: {} };
const validating = await testStep(validate, { options: loaded });
after(() => validating[Symbol.asyncDispose]());

async function ask(
  options: Options,
  { query = "", ...request }: TestRequest & { readonly query?: string },
): Promise<TestAnswer> {
  if (options !== loaded) await validating.reload(options);
  loaded = options;
  return validating.send({ path: `/x?${query}`, ...request });
}

interface Violation {
  readonly path: string;
  readonly reason: string;
}

async function violations(...request: Parameters<typeof ask>): Promise<readonly Violation[]> {
  const answer = await ask(...request);
  assert.deepEqual([answer.status, answer.code], [400, "GATEWAY_SCHEMA_VIOLATION"]);
  // These tests check the shape of `details`.
  const { details, ...error } = answer.json() as { details: { violations: Violation[] } };
  assert.deepEqual(error, {
    error: "the request does not match its schema",
    error_code: "GATEWAY_SCHEMA_VIOLATION",
  });
  return details.violations;
}

const transfer = {
  type: "object",
  properties: {
    to: { type: "string", minLength: 1 },
    "a/b~c": { type: "boolean" },
    items: { type: "array", items: { type: "object", properties: { n: { type: "integer" } } } },
  },
  required: ["to"],
  additionalProperties: false,
};
const ofBody = { body: transfer };

test("each violation has its path as a JSON Pointer and a reason", async () => {
  const body = '{"a/b~c":1,"items":[{"n":1},{"n":1.5}],"x/y":0}';
  assert.deepEqual(await violations(ofBody, { body }), [
    { path: "/body", reason: "must have required property 'to'" },
    { path: "/body/x~1y", reason: "must NOT have additional properties" },
    { path: "/body/a~1b~0c", reason: "must be boolean" },
    { path: "/body/items/1/n", reason: "must be integer" },
  ]);
});

test("a body is not coerced, so a number in quotes is not a number", async () => {
  const schema = { type: "object", properties: { n: { type: "integer" } } };
  const [first] = await violations({ body: schema }, { body: '{"n":"1"}' });
  assert.deepEqual(first, { path: "/body/n", reason: "must be integer" });
});

for (const body of ["", "{", "{'a':1}", "nul", '{"a":1}x', "\u0000"]) {
  test(`a body that is not JSON is GATEWAY_INVALID_PARAMS: ${JSON.stringify(body)}`, async () => {
    const reply = await ask(ofBody, { body });
    assert.equal(reply.status, 400);
    assert.deepEqual(reply.json(), {
      error: "the body is not valid JSON",
      error_code: "GATEWAY_INVALID_PARAMS",
    });
  });
}

test("at most twenty violations are reported", async () => {
  const schema = { type: "array", items: { type: "string" } };
  const body = JSON.stringify(Array.from({ length: 1000 }, () => 1));
  assert.equal((await violations({ body: schema }, { body })).length, 20);
  const headers = { type: "object", required: Array.from({ length: 15 }, (_, i) => `x-${i}`) };
  const query = { type: "object", required: Array.from({ length: 15 }, (_, i) => `q${i}`) };
  assert.equal((await violations({ headers, query }, {})).length, 20);
});

test("of a large body, only the first violation is reported", async () => {
  const schema = { type: "array", items: { type: "string" } };
  const body = JSON.stringify(Array.from({ length: 40_000 }, () => 1));
  assert.deepEqual(await violations({ body: schema }, { body }), [
    { path: "/body/0", reason: "must be string" },
  ]);
});

test("a path that contains the client's own text is truncated", async () => {
  const body = JSON.stringify({ to: "x", ["k".repeat(5000)]: 1 });
  const [first] = await violations(ofBody, { body });
  assert.equal(first?.path.length, 256);
});

test("no value of the request is repeated in the answer", async () => {
  const schema = {
    type: "object",
    properties: {
      pin: { const: "right" },
      kind: { enum: ["a", "b"] },
      code: { pattern: "^[0-9]+$" },
    },
  };
  const body = '{"pin":"hunter2","kind":"hunter2","code":"hunter2"}';
  const reply = await ask({ body: schema }, { body });
  assert.equal(reply.status, 400);
  assert.ok(!reply.body.includes("hunter2"));
});

test("the size limit of the body is the option's, or 1 MiB", async () => {
  for (const options of [{ body: {}, bodyBytes: 10 }, { body: {} }]) {
    const limit = options.bodyBytes ?? 1_048_576;
    assert.equal((await ask(options, { body: "1".padEnd(limit) })).status, 200);
    assert.equal((await ask(options, { body: "1".padEnd(limit + 1) })).status, 413);
  }
});

test("without a body schema the body is not checked", async () => {
  assert.equal((await ask({ query: { type: "object" } }, { body: "{" })).status, 200);
});

const search = {
  type: "object",
  properties: {
    limit: { type: "integer", minimum: 1, maximum: 25 },
    exact: { type: "boolean" },
    tag: { type: "array", items: { type: "string" }, maxItems: 2 },
    q: { type: "string" },
  },
  required: ["q"],
  additionalProperties: false,
};

const ofQuery = { query: search };

for (const query of [
  "q=a",
  "q=",
  "q=a&limit=25&exact=true",
  "q=a&tag=x",
  "q=a&tag=x&tag=y",
  "q=%C3%A9+b",
]) {
  test(`the query ?${query} passes`, async () => {
    assert.equal((await ask(ofQuery, { query })).status, 200);
  });
}

for (const [query, expected] of [
  ["", { path: "/query", reason: "must have required property 'q'" }],
  ["q=a&limit=26", { path: "/query/limit", reason: "must be <= 25" }],
  ["q=a&limit=ten", { path: "/query/limit", reason: "must be integer" }],
  ["q=a&limit=1&limit=2", { path: "/query/limit", reason: "must be integer" }],
  ["q=a&q=b", { path: "/query/q", reason: "must be string" }],
  ["q=a&exact=yes", { path: "/query/exact", reason: "must be boolean" }],
  ["q=a&tag=1&tag=2&tag=3", { path: "/query/tag", reason: "must NOT have more than 2 items" }],
  ["q=a&__proto__=x", { path: "/query/__proto__", reason: "must NOT have additional properties" }],
] as const) {
  test(`the query ?${query} is refused`, async () => {
    assert.deepEqual(await violations(ofQuery, { query }), [expected]);
  });
}

test("names of Object.prototype are not members of a query", async () => {
  const query = { type: "object", required: ["toString"] };
  const [first] = await violations({ query }, { query: "a=1" });
  assert.equal(first?.reason, "must have required property 'toString'");
});

test("repeated names become arrays, and escapes are decoded unless they are broken", () => {
  assert.deepEqual(
    { ...parseQuery("a=1&b=x%20y&a=2&a=3&c&=d&e=%zz") },
    { a: ["1", "2", "3"], b: "x y", c: "", "": "d", e: "%zz" },
  );
  assert.deepEqual({ ...parseQuery("") }, {});
});

test("headers are checked by lower-case name and coerced, and the request keeps its original headers", async () => {
  const headers = {
    type: "object",
    properties: { "x-depth": { type: "integer", maximum: 3 } },
    required: ["x-depth"],
  };
  const options = { headers };
  // A fake, because the requests of `testStep` are frozen: strict mode would hide a change.
  const sent = { "x-depth": "3" };
  const hooks = await validate.start(withDefaults(validate, options), fakeHost());
  assert.equal(await hooks.requestHeaders?.(fakeExchange({ headers: sent })), undefined);
  assert.deepEqual(sent, { "x-depth": "3" });
  assert.equal((await ask(options, { headers: { "X-Depth": "3" } })).status, 200);
  assert.deepEqual(await violations(options, { headers: { "x-depth": "4" } }), [
    { path: "/headers/x-depth", reason: "must be <= 3" },
  ]);
});

const faults: readonly [string, Options, string, RegExp][] = [
  ["a wrong type", { body: { type: "objct" } }, "/body/type", /not a JSON Schema/],
  [
    "a wrong keyword value, deep",
    { query: { properties: { a: { minimum: "1" } } } },
    "/query/properties/a/minimum",
    /must be number/,
  ],
  ["an unknown keyword", { headers: { tyype: "object" } }, "/headers", /unknown keyword: "tyype"/],
  ["an unknown format", { body: { type: "string", format: "email" } }, "/body", /unknown format/],
  ["a reference to nowhere", { body: { $ref: "#/$defs/none" } }, "/body", /can't resolve/],
  ["a remote reference", { body: { $ref: "http://127.0.0.1/s" } }, "/body", /can't resolve/],
  ["a bad pattern", { body: { type: "string", pattern: "(" } }, "/body", /regular expression/],
  ["an asynchronous schema", { body: { $async: true } }, "/body/$async", /not supported/],
  [
    "an upper-case header",
    { headers: { type: "object", properties: { "X-A": {} } } },
    "/headers/properties/X-A",
    /write x-a/,
  ],
];
for (const [what, options, pointer, message] of faults) {
  test(`${what} is a fault of the configuration, with its position`, () => {
    const found = validate.check?.(withDefaults(validate, options), fakeHost()) ?? [];
    assert.ok(found.length > 0);
    assert.equal(found[0]?.pointer, pointer);
    assert.match(found.map((fault) => fault.message).join("\n"), message);
  });
}

const step = await testStep(agentHeaders);
after(() => step[Symbol.asyncDispose]());

async function read(headers: Record<string, string>): Promise<Agent | undefined> {
  const { status, slots, facts } = await step.send({ headers });
  assert.equal(status, 200);
  assert.equal(facts.agent, slots.agent);
  return slots.agent;
}

describe("the agent of a request", () => {
  it("is absent without the headers", async () => {
    assert.equal(await read({ "user-agent": "x", "x-agent": "y" }), undefined);
    assert.equal(await read({ "x-agent-name": "", "x-agent-capabilities": " , ,," }), undefined);
  });

  it("is read from the five headers", async () => {
    assert.deepEqual(
      await read({
        "x-agent-name": "Planner",
        "x-agent-version": "1.2.0",
        "x-agent-session-id": "s-1",
        "x-agent-provider": "Acme Inc.",
        "x-agent-capabilities": "tools, streaming ,,batch",
      }),
      {
        name: "Planner",
        version: "1.2.0",
        sessionId: "s-1",
        provider: "Acme Inc.",
        capabilities: ["tools", "streaming", "batch"],
      },
    );
  });

  it("has the members that were sent", async () => {
    const agent = await read({ "x-agent-version": " 7 " });
    assert.equal(JSON.stringify(agent), '{"version":"7"}');
  });

  it("is limited in length and printable, whatever was sent", async () => {
    const text = fc.string({ unit: "binary", maxLength: 3000 });
    await fc.assert(
      fc.asyncProperty(text, text, async (name, capabilities) => {
        const agent = await read({ "x-agent-name": name, "x-agent-capabilities": capabilities });
        for (const value of [agent?.name ?? "-", ...(agent?.capabilities ?? [])]) {
          assert.match(value, /^[\x20-\x7e]{1,128}$/);
        }
        for (const value of agent?.capabilities ?? []) assert.ok(value.length <= 64);
        assert.ok((agent?.capabilities ?? []).length <= 16);
      }),
      { numRuns: 200 },
    );
  });

  it("is truncated if it is too long", async () => {
    const agent = await read({
      "x-agent-name": "n".repeat(8000),
      "x-agent-session-id": `${"s".repeat(127)} and more`,
      "x-agent-capabilities": Array.from({ length: 500 }, (_, i) => `c${i}`).join(","),
    });
    assert.equal(agent?.name, "n".repeat(128));
    assert.equal(agent.sessionId, "s".repeat(127));
    assert.deepEqual([agent.capabilities?.length, agent.capabilities?.[15]], [16, "c15"]);
    const long = await read({ "x-agent-capabilities": `a,${"b".repeat(5000)}` });
    assert.deepEqual(long?.capabilities, ["a", "b".repeat(64)]);
  });

  it("can neither forge a line nor colour a terminal", async () => {
    const agent = await read({ "x-agent-name": 'a\r\n{"level":30}\u001b[31m\u0000é' });
    assert.equal(agent?.name, 'a??{"level":30}?[31m??');
  });
});
