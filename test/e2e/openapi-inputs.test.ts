/**
 * The routes of the shipped pipeline accept exactly what the OpenAPI document of the gateway says: the documented values
 * of query and header parameters, and the documented bodies on routes whose plugins read bodies themselves, without
 * parsing the parts that they pass on.
 */
import assert from "node:assert/strict";
import { request, type IncomingMessage } from "node:http";
import { after, before, test } from "node:test";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { parseTime } from "sluice-gateway/services";
import { startDemos } from "../../src/commands/dev.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { ask, type Answer } from "./ask.ts";
import { shipped } from "./shipped-gateway.ts";

const pipeline = shipped
  .replace("rps: 200,", "rps: 1000000,")
  .replace(/^ {4}- access-log .*$/m, "    - { access-log: { file: access.log } }");

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: Readonly<Record<string, unknown>>;
}

/** Values of a parameter that are just valid, and just invalid; undefined means that the parameter is omitted. */
interface Samples {
  readonly inside: readonly string[];
  readonly outside: readonly (string | undefined)[];
}

/** All times are within one year, because the requested range must not end before it starts. */
const times = (year: number): Samples => ({
  inside: ["01-31", "01-31T12:00:00Z", "01-31T12:00:00.5-01:30"].map((rest) => `${year}-${rest}`),
  outside: ["", "1-31", "02-30", "01-31T12:00", "01-31T24:00:00Z"].map((rest) => `${year}-${rest}`),
});
const samples: Readonly<Record<string, Samples>> = {
  "query from": times(2020),
  "query to": times(2100),
  "query group_by": {
    inside: ["", "key", "day,key", "key,surface,method,model,day"],
    outside: ["key,key", "day,key,day", "keys", "key,", ",key", "key,,day", "Key", "key, day"],
  },
  "query after": {
    inside: ["0", "9007199254740991"],
    outside: ["-1", "9007199254740992", "1.5", "x"],
  },
  "query limit": { inside: ["1", "1000"], outside: ["0", "1001", "1.5", "x"] },
  "header x-request-id": { inside: ["!~", "x".repeat(128)], outside: ["a b", "x".repeat(129)] },
  "header idempotency-key": {
    inside: ["gateway_!~", `gateway_${"x".repeat(247)}`],
    outside: ["gateway", "other_1", "gateway_a b", `gateway_${"x".repeat(248)}`],
  },
  "header sec-websocket-protocol": {
    inside: ["confidential.v1", "other , confidential.v1,confidential.auth.x"],
    outside: [undefined, "confidential.v2", "confidential_v1", "confidential.v10", "other"],
  },
  "header mcp-session-id": { inside: ["any"], outside: [undefined] },
};

const bodies: Readonly<Record<string, object>> = {
  "/tma/workspaces/{id}/upgrade": { plan: "enterprise" },
  "/tma/workspaces/{id}/downgrade": { plan: "startup" },
  "/tma/workspaces/{id}/cu/purchase": { amount_cu_milli: 1 },
  "/v1/admin/confidential/{network}/models": { models: [] },
};

const stack = new AsyncDisposableStack();
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const parameters: { method: string; path: string; parameter: Parameter }[] = [];
let gateway: TestGateway;
/** A key that may also administer the platform. */
let admin: string;

before(async () => {
  const demo = await startDemos({}, stack);
  const env = { ...demo.env, LOG_LEVEL: "silent" };
  gateway = stack.use(await startTestGateway({ pipeline, env }));
  admin = (await gateway.issue({ capabilities: ["inference", "platform:admin"] })).key;
  const { json: document } = await ask(`${gateway.url}/openapi.json`);
  ajv.addSchema({ ...document, $id: "document" });
  // The shape of the document itself.
  const { paths } = document as {
    paths: Record<string, Record<string, { parameters?: readonly Parameter[] }>>;
  };
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      for (const parameter of operation.parameters ?? []) {
        if (isConstrained(parameter)) parameters.push({ method, path, parameter });
      }
    }
  }
});

after(() => stack.disposeAsync());

/** Any text is valid for the other parameters. */
function isConstrained({ in: place, required, schema }: Parameter): boolean {
  const isBound = Object.keys(schema).some((word) => word !== "type" && word !== "default");
  return isBound || schema["type"] !== "string" || (required && place !== "path");
}

const keyOf = ({ in: place, name }: Parameter): string => `${place} ${name}`;

test("there are samples of every parameter that is constrained", () => {
  const documented = new Set(parameters.map(({ parameter }) => keyOf(parameter)));
  // A path with an invalid value is not found, like one that does not exist; see
  // test/plugins/confidential/confidential.test.ts.
  const inPaths = ["path digest", "path session", "path rid"];
  assert.deepEqual([...documented].toSorted(), [...Object.keys(samples), ...inPaths].toSorted());
});

test("a value that the document allows is accepted, and a value just outside its limits is not", async () => {
  const coercing = new Ajv2020({ coerceTypes: true, allowUnionTypes: true });
  coercing.addFormat("date", (text) => parseTime(text) !== undefined && text.length === 10);
  coercing.addFormat("date-time", (text) => parseTime(text) !== undefined && text.length > 10);
  for (const { method, path, parameter } of parameters) {
    const { inside, outside } = samples[keyOf(parameter)] ?? { inside: [], outside: [] };
    const schema = { type: "object", properties: { value: parameter.schema } };
    const isDocumented = coercing.compile(
      parameter.required ? { ...schema, required: ["value"] } : schema,
    );
    for (const value of [...inside, ...outside]) {
      const isGood = inside.some((one) => one === value);
      const description = `${method} ${path} ${parameter.name}: ${value}`;
      assert.equal(isDocumented(value === undefined ? {} : { value }), isGood, description);
      assert.equal(await isTaken(method, path, parameter, value), isGood, description);
    }
  }
});

async function isTaken(
  method: string,
  path: string,
  parameter: Parameter,
  value: string | undefined,
): Promise<boolean> {
  const isQuery = parameter.in === "query" && value !== undefined;
  const query = isQuery ? `?${new URLSearchParams({ [parameter.name]: value }).toString()}` : "";
  const target = path.replace("{id}", gateway.workspaceId).replace("{network}", "none") + query;
  const sent = parameter.in === "header" && value !== undefined ? { [parameter.name]: value } : {};
  const { statusCode, headers } = await answerTo(method, target, bodies[path], sent);
  // A request whose own id is not accepted gets another one.
  return parameter.name === "x-request-id" ? headers["x-request-id"] === value : statusCode !== 400;
}

/** Returns the head of the answer. Routes with WebSockets get an upgrade request. */
function answerTo(
  method: string,
  target: string,
  body: object | undefined,
  more: Readonly<Record<string, string>>,
): Promise<IncomingMessage> {
  const upgrade = {
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
  };
  return new Promise((resolve, reject) => {
    const req = request(gateway.url + target, {
      method: method.toUpperCase(),
      agent: false,
      headers: {
        authorization: `Bearer ${admin}`,
        "content-type": "application/json",
        ...(target === "/v1/confidential/stream" && upgrade),
        ...more,
      },
    });
    req.on("response", (answer) => resolve(answer.resume()));
    req.on("upgrade", (answer, socket) => {
      socket.destroy();
      resolve(answer);
    });
    req.on("error", reject);
    req.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

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
  ask(gateway.url + path, { key: gateway.key, body: JSON.stringify(body) });

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
    const { _meta: answered } = (answer.text === "" ? {} : answer.json) as {
      _meta?: { errorCode?: string };
    };
    return wrongCalls.includes(answered?.errorCode ?? "");
  };
  await hold("/mcp", fc.oneof(bodyOf(message), bodyOf(response), bare), isRefusal);
  await holdAt("/mcp", { jsonrpc: "2.0", id: 1, method: "ping" }, 20, isRefusal);
});
