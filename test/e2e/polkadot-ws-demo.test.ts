/** The usual provider of @polkadot/api through the gateway to the demo node: what `sluice dev` offers is enough for it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { ApiPromise, WsProvider } from "@polkadot/api";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { until } from "../plugins/ledger/until.ts";

test("WsProvider connects, reads and subscribes", async (t) => {
  const node = await startDemoNode();
  t.after(() => node.close());
  await using gateway = await startTestGateway({
    pipeline: await readFile(new URL("../../pipeline.yaml", import.meta.url), "utf8"),
    env: { LEDGER_RPC_URL: node.url },
  });
  const url = `${gateway.url.replace("http:", "ws:")}/v1/ledger/ws/${gateway.key}`;
  const provider = new WsProvider(url);
  const api = await ApiPromise.create({ provider, noInitWarn: true, throwOnConnect: true });
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
