/**
 * Sends bodies and headers of every kind to `/mcp` and `/rpc`. Each gets an answer that clients can read, never a 5xx.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { send, startToolsGateway, toolNames, type ToolsGateway } from "../../e2e/tools-gateway.ts";
import { gaugesAreZero } from "../gauges.ts";
import type { FuzzTarget, Random } from "../target.ts";

/** Any JSON, or one of the values that have a meaning in this place. */
const or = (...values: readonly unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...values) }, fc.jsonValue({ maxDepth: 3 }));

// This call does not hang, because a call that hangs takes 30 s.
const names = toolNames.filter((name) => name !== "hangs" && name !== "large");
const input = fc.oneof(
  fc.dictionary(fc.constantFrom("text", "to", "calls", "confirmation_token", "__proto__"), or("x")),
  or({ text: "x" }, { calls: [{ tool: "echo", params: { text: "x" } }] }),
);
const meta = fc.record(
  {
    "io.modelcontextprotocol/protocolVersion": or("2026-07-28", "2025-11-25", "2099-01-01"),
    "io.modelcontextprotocol/clientCapabilities": or({}, { elicitation: {} }),
    progressToken: or("t", 1),
    traceparent: or("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
  },
  { requiredKeys: [] },
);
const params = fc.record(
  {
    name: or(...names, "gateway_batch", "nothing"),
    tool: or(...names),
    arguments: input,
    params: input,
    input,
    uri: or("doc://x"),
    cursor: or("c"),
    inputResponses: or({ confirm: { action: "accept", content: { confirm: true } } }),
    requestState: or("nonsense"),
    protocolVersion: or("2025-11-25", "2026-07-28"),
    capabilities: or({ elicitation: {} }),
    _meta: fc.oneof(meta, or(null)),
  },
  { requiredKeys: [] },
);
const methods = [
  "tools/call",
  "tools/list",
  "tools.call",
  "tools.list",
  "initialize",
  "server/discover",
  "ping",
  "resources/read",
  "prompts/get",
  "completion/complete",
  "logging/setLevel",
  "notifications/initialized",
];
const message = fc.record(
  {
    jsonrpc: or("2.0"),
    id: or(1, "a", null, 1e300, -0),
    method: or(...methods),
    params: fc.oneof(params, or({})),
    result: or({}),
    error: or({ code: 1, message: "no" }),
    tool: or(...names),
    input,
    confirmation_token: or("x"),
  },
  { requiredKeys: [] },
);
const body = fc.oneof(
  { weight: 8, arbitrary: message.map((one) => JSON.stringify(one)) },
  fc.array(message, { maxLength: 4 }).map((items) => JSON.stringify(items)),
  fc.json(),
  fc.string(),
  // Cuts the body at any place.
  fc.tuple(message, fc.nat(200)).map(([one, at]) => JSON.stringify(one).slice(0, at)),
);
const visible = fc
  .string({ unit: fc.constantFrom("a", "z", "0", "9", "-", "=", "?", "/", ";", ",", " ") })
  .map((text) => text.trim());
const headers = fc.record(
  {
    accept: fc.oneof(
      fc.constantFrom(
        "application/json",
        "text/event-stream",
        "application/json, text/event-stream",
      ),
      visible,
    ),
    "mcp-protocol-version": fc.oneof(
      fc.constantFrom("2026-07-28", "2025-11-25", "2025-03-26", "2099-01-01"),
      visible,
    ),
    "mcp-method": fc.oneof(fc.constantFrom(...methods), visible),
    "mcp-name": fc.oneof(fc.constantFrom(...names, "=?base64?ZWNobw==?="), visible),
    "mcp-session-id": visible,
  },
  { requiredKeys: [] },
);

const statuses = new Set([200, 202, 204, 400, 404, 410]);

export const agentSurfaces: FuzzTarget = {
  name: "agent-surfaces",
  async run(random) {
    await using gateway = await startToolsGateway();
    for (const path of ["/mcp", "/rpc"]) await answersAll(random, gateway, path);
    await gaugesAreZero(gateway.adminUrl);
  },
};

async function answersAll(random: Random, gateway: ToolsGateway, path: string): Promise<void> {
  const seen = new Set<number>();
  await random.check(
    `${path} answers whatever is sent`,
    fc.tuple(body, headers),
    750,
    async ([sent, more]) => {
      const answer = await send(gateway, sent, { path, headers: more });
      seen.add(answer.status);
      assert.ok(statuses.has(answer.status), `${answer.status} ${answer.text}`);
      assert.ok(!answer.text.includes("secret of the upstream"));
      assert.match(answer.headers["x-used-cu-milli"]?.toString() ?? "", /^\d+$/);
      if (answer.text === "") assert.ok([202, 204].includes(answer.status));
      else if (answer.headers["content-type"] === "text/event-stream") {
        assert.match(answer.text, /^(event: message\ndata: [{[].*\n\n)+$/);
      } else {
        const parsed = answer.json;
        assert.ok(typeof parsed === "object" && parsed !== null);
      }
    },
  );
  assert.ok(seen.size >= (path === "/mcp" ? 4 : 2), `only ${[...seen].join()}`);
}
