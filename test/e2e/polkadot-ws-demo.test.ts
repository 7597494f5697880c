/** The usual provider of @polkadot/api through the gateway to the demo node: what `sluice dev` offers is enough for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { until } from "../plugins/ledger/until.ts";
import { connectByWebSocket } from "./polkadot-api.ts";
import { startLedgerGateway } from "./shipped-gateway.ts";

test("WsProvider connects, reads and subscribes", async (t) => {
  const node = await startDemoNode();
  t.after(() => node.close());
  await using gateway = await startLedgerGateway(node.url);
  const api = await connectByWebSocket(gateway.wsUrl);
  t.after(() => api.disconnect());
  assert.equal(api.runtimeVersion.specVersion.toNumber(), 1_003_000);
  assert.equal((await api.query.system.account.entries()).length, 16);
  const heads: number[] = [];
  const stop = await api.rpc.chain.subscribeNewHeads(
    (head) => void heads.push(head.number.toNumber()),
  );
  await until(() => heads.length > 0);
  assert.deepEqual(heads, [8]);
  stop();
});
