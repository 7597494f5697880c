/** The nodes in the dashboard of a gateway with several threads. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { ask, signIn } from "../plugins/dashboard/dashboard/gateway.ts";
import { TextNode } from "../plugins/ledger/ledger-ws/text-node.ts";
import { until } from "../plugins/ledger/until.ts";

const pipeline = `version: 1
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
    pipeline,
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
    (await ask(gateway, "health", { cookie })).body.node_calls[0];
  await until(async () => (await view())["in_flight"] === calls.length);
  const { upstream, node: name } = await view();
  assert.deepEqual([upstream, name], ["ledger", new URL(node.url).host]);
  leaving.abort();
  await Promise.all(calls);
});
