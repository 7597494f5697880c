/** The connections to a node are shared among workspaces (finding S13). */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import type { TestKey } from "../../plugins/contracts/testing.ts";
import { closed, healthyNode, listening, type RpcCall } from "./rpc-node.ts";
import { startLedgerGateway, shipped } from "./shipped-gateway.ts";
import { watchHealth } from "./watch-health.ts";

/** A node that answers no calls of `chain_getBlock` until it is released, and counts those that it has received. */
async function startSlowNode() {
  const state = { slow: 0 };
  let isSlow = true;
  const server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    req.on("end", () => {
      // Only cheap calls are sent as arrays, and this test sends one of them at a time.
      const call = JSON.parse(text) as RpcCall;
      if (isSlow && call.method === "chain_getBlock") {
        state.slow++;
        return;
      }
      const result = healthyNode[call.method]?.(call.params ?? []) ?? null;
      res.end(JSON.stringify({ jsonrpc: "2.0", id: call.id, result }));
    });
  });
  return Object.assign(state, {
    url: await listening(server),
    release() {
      isSlow = false;
      server.closeAllConnections();
    },
    [Symbol.asyncDispose]: () => closed(server),
  });
}

test("a workspace whose calls take long leaves half of the connections to the others", async (t) => {
  await using node = await startSlowNode();
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
  while (node.slow < 8) await new Promise((resolve) => setImmediate(resolve));
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
  assert.equal(node.slow, 8);
  assert.notEqual(await longestHealth(), Infinity);
  leaving.abort();
  await Promise.all(pending);
  node.release();
});
