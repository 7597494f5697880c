/** Services of modules in several threads: the sessions of agents, and the nodes in the dashboard. */
import assert from "node:assert/strict";
import { request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import { type TestGateway, startTestGateway } from "../../plugins/contracts/testing.ts";
import { ask, mcpPipeline, mcpTools, startMcpGateway, type Parsed } from "../e2e/mcp-gateway.ts";
import { ask as askDashboard, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import { TextNode } from "../plugins/ledger/ledger-ws/text-node.ts";
import { until } from "../plugins/ledger/until.ts";

/** Each request has a connection of its own, so it is unlikely that so many of them reach the same thread. */
const times = 10;
const pipeline = mcpPipeline("{}", mcpTools).replace("server: {", "server: { threads: 3,");

const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });

async function begin(gateway: TestGateway): Promise<Record<string, string>> {
  const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} } };
  const { headers } = await ask(gateway, { body: rpc("initialize", params) });
  return { "mcp-session-id": String(headers["mcp-session-id"]) };
}

async function* write(
  gateway: TestGateway,
  session: Record<string, string>,
): AsyncGenerator<Parsed, undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request(`${gateway.url}/mcp`, {
    method: "POST",
    agent: false,
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...session,
    },
  });
  sent.on("response", resolve).on("error", reject);
  sent.end(JSON.stringify(rpc("tools/call", { name: "write", arguments: { to: "Alice" } })));
  let text = "";
  for await (const chunk of (await promise).setEncoding("utf8")) {
    text += chunk as string;
    for (let end = text.indexOf("\n\n"); end !== -1; end = text.indexOf("\n\n")) {
      const line = text.slice(0, end).split("data: ")[1];
      text = text.slice(end + 2);
      if (line !== undefined) yield JSON.parse(line);
    }
  }
  return undefined;
}

test("sessions, questions, confirmations and the end of a session hold in all threads", async (t) => {
  const account = { capabilities: ["ledger:write"] } as const;
  const gateway = await startMcpGateway({ pipeline, account, strict: false });
  t.after(() => gateway[Symbol.asyncDispose]());
  const session = await begin(gateway);
  for (let time = 0; time < times; time++) {
    const call = write(gateway, session);
    const { value: question } = await call.next();
    const result = { action: "accept", content: { confirm: true } };
    const body = { jsonrpc: "2.0", id: question.id, result };
    assert.equal((await ask(gateway, { body, headers: session })).status, 202);
    const { value: answer } = await call.next();
    assert.equal(answer.result.isError, undefined);
  }
  // Without a session, the caller gets the token, which confirms one call, whichever threads it reaches.
  const plain = (more: object): ReturnType<typeof ask> =>
    ask(gateway, { body: { tool: "write", input: { to: "Bob" }, ...more } });
  const { content } = (await plain({})).json;
  const { confirmation_token } = JSON.parse(content[0].text);
  const calls = Array.from({ length: times }, () => plain({ confirmation_token }));
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  assert.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [200, ...Array.from({ length: times - 1 }, () => 410)],
  );
  assert.equal((await ask(gateway, { method: "DELETE", headers: session })).status, 204);
  const list = { body: rpc("tools/list", {}), headers: session };
  const deadline = performance.now() + 1_000;
  const isLost = async (): Promise<boolean> => (await ask(gateway, list)).status === 404;
  for (let lost = 0; lost < times; lost = (await isLost()) ? lost + 1 : 0) {
    assert.ok(performance.now() < deadline, "a thread still knows the session");
  }
});

const nodePipeline = `version: 1
server: { port: "\${PORT}", threads: 2 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 1000000, includedCu: 1000000 } }
upstreams: { ledger: { urls: "\${NODE_URL}" } }
routes:
  - path: /rpc
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: key } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

test("the view Health shows the calls at a node of all threads", async (t) => {
  const node = new TextNode();
  const method = "state_getKeysPaged";
  node.held.add(method);
  await node.start();
  t.after(() => node.stop());
  const gateway = await startTestGateway({
    pipeline: nodePipeline,
    env: { NODE_URL: node.url },
    account: { capabilities: ["platform:admin", "ledger:read"] },
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  const leaving = new AbortController();
  const { signal } = leaving;
  const headers = { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" };
  const calls = Array.from({ length: 8 }, async (_, id) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id, method, params: ["0x", id + 1] });
    await fetch(`${gateway.url}/rpc`, { method: "POST", headers, body, signal }).catch(() => {});
  });
  const cookie = await signIn(gateway, gateway.key);
  const view = async (): Promise<Record<string, unknown>> =>
    (await askDashboard(gateway, "health", { cookie })).body.node_calls[0];
  await until(async () => (await view())["in_flight"] === calls.length);
  const { upstream, node: name } = await view();
  assert.deepEqual([upstream, name], ["ledger", new URL(node.url).host]);
  leaving.abort();
  await Promise.all(calls);
});
