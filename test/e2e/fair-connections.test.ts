/** The connections to a node are shared among workspaces (finding S13). */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TestKey } from "../../plugins/contracts/testing.ts";
import { healthyNode, startRpcNode } from "./rpc-node.ts";
import { startLedgerGateway, shipped } from "./shipped-gateway.ts";
import { watchHealth } from "./watch-health.ts";

test("a workspace whose calls take long leaves half of the connections to the others", async (t) => {
  const released = Promise.withResolvers<null>();
  await using node = await startRpcNode({ chain_getBlock: () => released.promise });
  const slow = (): number => node.calls.filter(({ method }) => method === "chain_getBlock").length;
  const pipeline = shipped.replace("aliases: {", "connections: 17\n    aliases: {");
  await using gateway = await startLedgerGateway(node.url, { pipeline });
  const longestHealth = watchHealth(t, gateway.url);
  const leaving = new AbortController();
  const post = ({ key }: Pick<TestKey, "key">, body: object, signal?: AbortSignal) =>
    fetch(`${gateway.url}/v1/ledger/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
  const greedy = await gateway.issue({ plan: "enterprise" });
  let id = 0;
  const arrayOf50 = () =>
    Array.from({ length: 50 }, () => ({
      jsonrpc: "2.0",
      id: ++id,
      method: "chain_getBlock",
      params: [`0x${id.toString(16).padStart(64, "0")}`],
    }));
  const pending = Array.from({ length: 20 }, () =>
    post(greedy, arrayOf50(), leaving.signal).catch(() => undefined),
  );
  // One of the 17 connections is reserved for probes.
  while (slow() < 8) await new Promise((resolve) => setImmediate(resolve));
  for (let n = 0; n < 20; n++) {
    const answer = await post(gateway, {
      jsonrpc: "2.0",
      id: n,
      method: "chain_getBlockHash",
      params: [n],
    });
    assert.deepEqual(await answer.json(), {
      jsonrpc: "2.0",
      id: n,
      result: healthyNode["chain_getBlockHash"]?.([n]),
    });
  }
  assert.equal(slow(), 8);
  assert.notEqual(await longestHealth(), Infinity);
  leaving.abort();
  await Promise.all(pending);
  released.resolve(null);
});
