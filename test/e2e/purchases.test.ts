import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { sluice } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";
import { join } from "node:path";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";

const pipeline = (node: string): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { free: { rps: 1000, includedCu: 1 } }
upstreams: { ledger: { urls: "${node}" } }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

test("credit is drawn from the included amount, then from purchases, then refused; the command line shows the remaining credit", async () => {
  await using node = await startRpcNode();
  await using gateway = await startTestGateway({
    pipeline: pipeline(node.url),
    account: { plan: "free" },
  });
  await withFolderAccounts(join(gateway.folder, "data"), (store) =>
    store.purchase(gateway.workspaceId, 500, { actor: "test", at: Date.now() }),
  );
  const call = async (): Promise<{ status: number; body: { details?: unknown } }> => {
    const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"system_chain"}',
    });
    return { status: response.status, body: (await response.json()) as never };
  };
  // 1,000 milli-CU are included and 500 bought; a call costs 100.
  for (let n = 1; n <= 15; n++) assert.equal((await call()).status, 200, `call ${n}`);
  const { status, body } = await call();
  assert.equal(status, 429);
  assert.deepEqual(body.details, { used_cu_milli: 1500, limit_cu_milli: 1500 });
  const env = { DATA_DIR: join(gateway.folder, "data") };
  const config = join(gateway.folder, "pipeline.yaml");
  const shown = sluice(
    ["workspaces", "show", gateway.workspaceId, "--json", "--config", config],
    env,
  );
  assert.equal((JSON.parse(shown) as { purchased_cu_milli: number }).purchased_cu_milli, 0);
});
