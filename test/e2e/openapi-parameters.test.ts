/** Query and header parameters: the OpenAPI document states exactly which values the shipped routes accept. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { request, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parseTime } from "sluice-gateway/services";
import { startDemos } from "../../src/commands/dev.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";

const pipeline = readFileSync(join(import.meta.dirname, "../../pipeline.yaml"), "utf8")
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
const parameters: { method: string; path: string; parameter: Parameter }[] = [];
let gateway: TestGateway;

before(async () => {
  const demo = await startDemos({}, stack);
  gateway = stack.use(
    await startTestGateway({
      pipeline,
      env: { ...demo.env, LOG_LEVEL: "silent" },
      account: { capabilities: ["inference", "platform:admin"] },
    }),
  );
  // The shape of the document itself.
  const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
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
  const ajv = new Ajv2020({ coerceTypes: true, allowUnionTypes: true });
  ajv.addFormat("date", (text) => parseTime(text) !== undefined && text.length === 10);
  ajv.addFormat("date-time", (text) => parseTime(text) !== undefined && text.length > 10);
  for (const { method, path, parameter } of parameters) {
    const { inside, outside } = samples[keyOf(parameter)] ?? { inside: [], outside: [] };
    const schema = { type: "object", properties: { value: parameter.schema } };
    const isDocumented = ajv.compile(
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
        authorization: `Bearer ${gateway.key}`,
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
