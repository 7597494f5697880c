/**
 * Bodies that plugins read themselves, without parsing the parts that they pass on: the schema in the served OpenAPI
 * document accepts a body if and only if the route does. Both come from the shipped pipeline.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { startDemos } from "../../src/commands/dev.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { send, type Answer } from "./tools-gateway.ts";

const pipeline = readFileSync(join(import.meta.dirname, "../../pipeline.yaml"), "utf8")
  .replace("rps: 200,", "rps: 1000000,")
  .replace(/^ {4}- access-log .*$/m, "    - { access-log: { file: access.log } }");

const stack = new AsyncDisposableStack();
const ajv = new Ajv2020({ strict: false, validateFormats: false });
let gateway: TestGateway;

before(async () => {
  const demo = await startDemos({}, stack);
  gateway = stack.use(
    await startTestGateway({
      pipeline,
      env: { ...demo.env, LOG_LEVEL: "silent" },
    }),
  );
  const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as object;
  ajv.addSchema({ ...document, $id: "document" });
});

after(() => stack.disposeAsync());

function documentedBody(path: string): ValidateFunction {
  const at = path.replaceAll("/", "~1");
  const $ref = `document#/paths/${at}/post/requestBody/content/application~1json/schema`;
  return ajv.compile({ $ref });
}

const odd: fc.Arbitrary<unknown> = fc.constantFrom(null, true, 0, "text", [], [1], {}, { a: 1 });
const mostly = (...good: readonly unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 10, arbitrary: fc.constantFrom(...good) }, odd);

/** Any of the members; most often those that a message needs. */
function messageOf(
  members: Readonly<Record<string, fc.Arbitrary<unknown>>>,
  needed: readonly string[],
): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 3, arbitrary: fc.record(members, { requiredKeys: [...needed] }) },
    { weight: 1, arbitrary: fc.record(members, { requiredKeys: [] }) },
  );
}

function bodyOf(message: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 8, arbitrary: message },
    { weight: 4, arbitrary: fc.array(message, { maxLength: 3 }) },
    { weight: 1, arbitrary: odd },
    { weight: 1, arbitrary: fc.array(odd, { maxLength: 3 }) },
  );
}

const post = (path: string, body: unknown): Promise<Answer> =>
  send(gateway, JSON.stringify(body), { path });

function errorCodes({ text }: Answer): number[] {
  if (text === "") return [];
  // The gateway's own answers.
  const response = JSON.parse(text) as
    | { error?: { code: number } }
    | { error?: { code: number } }[];
  return [response].flat().flatMap(({ error }) => error?.code ?? []);
}

/** A notification gets no answer that says what is wrong with it. With an id, it is a request. */
function asRequests(body: unknown): unknown {
  if (Array.isArray(body)) return body.map(asRequests);
  return typeof body === "object" && body !== null ? { id: 0, ...body } : body;
}

async function hold(
  path: string,
  body: fc.Arbitrary<unknown>,
  isRefusal: (answer: Answer) => boolean,
): Promise<void> {
  const isDocumented = documentedBody(path);
  const seen = { taken: 0, refused: 0 };
  const property = fc.asyncProperty(body, async (value) => {
    const isGood = isDocumented(value);
    const answer = await post(path, isGood ? value : asRequests(value));
    assert.ok(answer.status < 500, answer.text);
    assert.equal(isRefusal(answer), !isGood, `${JSON.stringify(value)}: ${answer.text}`);
    seen[isGood ? "taken" : "refused"]++;
  });
  await fc.assert(property, { numRuns: 1_000 });
  assert.ok(seen.taken > 100 && seen.refused > 100, JSON.stringify(seen));
}

/** The longest documented array is accepted, and a longer one is not. */
async function holdAt(
  path: string,
  message: object,
  most: number,
  isRefusal: (answer: Answer) => boolean,
): Promise<void> {
  const isDocumented = documentedBody(path);
  for (const count of [most, most + 1]) {
    const body = Array.from({ length: count }, () => message);
    assert.equal(isDocumented(body), count === most);
    assert.equal(isRefusal(await post(path, body)), count !== most);
  }
}

/** Parse error, and invalid request. */
const malformed = [-32700, -32600];
/** The codes for an unknown method and for invalid params, which are documented per tool. */
const wrong = [...malformed, -32601, -32602];

const wrongCalls = ["GATEWAY_TOOL_NOT_FOUND", "GATEWAY_INVALID_PARAMS", "GATEWAY_SCHEMA_VIOLATION"];

test("the node proxy accepts exactly the documented requests", async () => {
  const message = messageOf(
    {
      jsonrpc: mostly("2.0", "1.0"),
      id: mostly(1, "a", null, 1.5),
      // Whether a method is on the whitelist does not depend on the form of the request.
      method: mostly("system_chain", "author_rotateKeys"),
      params: mostly([], {}, null),
      more: odd,
    },
    ["jsonrpc", "method"],
  );
  const isRefusal = (answer: Answer): boolean =>
    errorCodes(answer).some((code) => malformed.includes(code));
  await hold("/v1/ledger/rpc", bodyOf(message), isRefusal);
  const call = { jsonrpc: "2.0", id: 1, method: "system_chain" };
  await holdAt("/v1/ledger/rpc", call, 50, isRefusal);
});

test("the JSON-RPC of the tools accepts exactly the documented calls", async () => {
  const call = messageOf(
    {
      tool: mostly("docs_search", "ledger_listMethods", "ledger_listMethods", "no_such_tool"),
      params: mostly({}, { query: "fees" }, { query: 1 }),
      confirmation_token: mostly("none"),
      more: odd,
    },
    ["tool"],
  );
  const message = messageOf(
    {
      jsonrpc: mostly("2.0", "1.0"),
      id: mostly(1, "a", null, 1.5),
      method: mostly("tools.list", "tools.call", "tools.call"),
      params: fc.oneof({ weight: 10, arbitrary: call }, odd),
      more: odd,
    },
    ["jsonrpc", "method", "params"],
  );
  const isRefusal = (answer: Answer): boolean =>
    errorCodes(answer).some((code) => wrong.includes(code));
  await hold("/rpc", bodyOf(message), isRefusal);
  await holdAt("/rpc", { jsonrpc: "2.0", id: 1, method: "tools.list" }, 20, isRefusal);
});

test("the agent protocol accepts exactly the documented messages and plain calls", async () => {
  const meta = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
  const message = messageOf(
    {
      jsonrpc: mostly("2.0", "1.0"),
      id: mostly(1, "a", null, 1.5),
      method: mostly("ping", "tools/list", "initialize", "no/such"),
      params: mostly({}, { _meta: meta }, { _meta: {} }),
      more: odd,
    },
    ["jsonrpc", "method"],
  );
  const response = messageOf(
    { jsonrpc: mostly("2.0"), id: mostly(1), result: odd, error: odd, method: odd },
    ["jsonrpc", "result"],
  );
  const bare = fc.record(
    {
      tool: mostly("docs_search", "ledger_listMethods", "no_such_tool"),
      input: mostly({ query: "fees" }, { query: 1 }, {}),
      confirmation_token: mostly("none"),
      jsonrpc: odd,
    },
    { requiredKeys: ["tool"] },
  );
  const isRefusal = (answer: Answer): boolean => {
    if (errorCodes(answer).some((code) => malformed.includes(code))) return true;
    const { _meta: answered } = (answer.text === "" ? {} : answer.json()) as {
      _meta?: { errorCode?: string };
    };
    return wrongCalls.includes(answered?.errorCode ?? "");
  };
  await hold("/mcp", fc.oneof(bodyOf(message), bodyOf(response), bare), isRefusal);
  await holdAt("/mcp", { jsonrpc: "2.0", id: 1, method: "ping" }, 20, isRefusal);
});
