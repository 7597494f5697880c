import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../src/testing/gateway.ts";
import { startRpcNode } from "./rpc-node.ts";

const pipeline = (node: string): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams:
  ledger: { urls: "${node}" }
  plain: { urls: "${node}" }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - { path: /plain, methods: [POST], to: { forward: { upstream: plain } } }
`;

test("a surface whose own options stay the same takes its upstream's new address", async () => {
  await using first = await startRpcNode({ system_chain: () => "first" });
  await using second = await startRpcNode({ system_chain: () => "second" });
  await using gateway = await startTestGateway({ pipeline: pipeline(first.url) });
  const chain = async (path: string): Promise<unknown> => {
    const response = await fetch(gateway.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"system_chain"}',
    });
    return ((await response.json()) as { result: unknown }).result;
  };
  assert.deepEqual([await chain("/v1/ledger/rpc"), await chain("/plain")], ["first", "first"]);
  await gateway.write(pipeline(second.url));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.deepEqual([await chain("/v1/ledger/rpc"), await chain("/plain")], ["second", "second"]);
});
