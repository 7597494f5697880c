import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { scriptedUpstream, testService } from "../../../plugins/contracts/testing.ts";
import plugin from "../../../plugins/extras/evm-node/index.ts";

test("a plugin that uses the service needs the section", async () => {
  await assert.rejects(testService(plugin), /the section "evm-node" is missing/);
});

test("the service knows the newest block, calls allowed methods and reports a node that cannot be reached", async () => {
  let isAway = false;
  await using node = await scriptedUpstream(({ body }) => {
    if (isAway) return { status: 500, body: "down" };
    const { id, method } = JSON.parse(body) as { id: number; method: string };
    return { body: { jsonrpc: "2.0", id, result: method === "eth_blockNumber" ? "0x2a" : "0x0" } };
  });
  const methods = ["eth_blockNumber", "eth_getBalance", "eth_call"];
  const options = { "evm-node": { url: node.url, methods, everyMs: 12_000, timeoutMs: 5_000 } };
  await using tested = await testService(plugin, { options });
  assert.equal(tested.service.head(), 42);
  assert.equal(await tested.service.call("eth_getBalance", ["0x00", "latest"]), "0x0");
  await assert.rejects(tested.service.call("eth_sendRawTransaction"), /not allowed/);
  const backend = { kind: "evm", title: "evm node", details: { head: 42 } };
  assert.deepEqual(tested.backends(), [{ ...backend, ready: true }]);
  isAway = true;
  await assert.rejects(tested.service.call("eth_call"), /did not send a JSON-RPC answer/);
  tested.clock.advance(12_000);
  while (tested.lines.length === 0) await setImmediate();
  assert.deepEqual(tested.backends(), [{ ...backend, ready: "the node does not answer" }]);
});
