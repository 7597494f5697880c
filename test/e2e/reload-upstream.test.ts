import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
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

async function chainOf(gateway: TestGateway, path: string): Promise<unknown> {
  const response = await fetch(gateway.url + path, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: '{"jsonrpc":"2.0","id":1,"method":"system_chain"}',
  });
  return ((await response.json()) as { result: unknown }).result;
}

test("while a reload moves an upstream to other nodes, the gateway stays ready and no call fails", async () => {
  await using first = await startRpcNode({ system_chain: () => "first" });
  await using second = await startRpcNode({ system_chain: () => "second" });
  await using gateway = await startTestGateway({ pipeline: pipeline(first.url) });
  const readiness = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/readyz`);
    await response.arrayBuffer();
    return response.status;
  };
  assert.equal(await readiness(), 200, "from the first moment on");
  let stop = false;
  const statuses = new Set<number>();
  const names = new Set<unknown>();
  const ask = async (): Promise<void> => {
    while (!stop) statuses.add(await readiness());
  };
  const call = async (): Promise<void> => {
    while (!stop) names.add(await chainOf(gateway, "/v1/ledger/rpc"));
  };
  const load = [ask(), ask(), call(), call()];
  for (let n = 0; n < 20; n++) {
    await gateway.write(pipeline(n % 2 === 0 ? second.url : first.url));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    statuses.add(await readiness());
  }
  stop = true;
  await Promise.all(load);
  assert.deepEqual(statuses, new Set([200]));
  assert.deepEqual(names, new Set(["first", "second"]));
});
