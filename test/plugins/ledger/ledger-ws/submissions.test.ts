/** Submitting extrinsics over WebSocket, through the shipped pipeline, with scripted nodes. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import type { TestGateway, WantedKey } from "../../../../plugins/contracts/testing.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { ChainNode } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { connectCaller, path, startShipped, type Answer, type Caller } from "./shipped-gateway.ts";

const legacy = "author_submitAndWatchExtrinsic";
const watch = "transactionWatch_v1_submitAndWatch";
const writing: WantedKey = { capabilities: ["ledger:read", "ledger:write"] };

const stack = new AsyncDisposableStack();
let first: ChainNode;
let second: ChainNode;
let gateway: TestGateway;

before(async () => {
  first = stack.use(await ChainNode.start());
  second = stack.use(await ChainNode.start());
  gateway = await startShipped(nodes(), {
    surface: "write: true",
    methods: "transaction_v1_broadcast: { cuMilli: 7000 }, ",
  });
  stack.use(gateway);
});
after(() => stack.disposeAsync());
beforeEach(async () => {
  for (const node of nodes()) {
    node.answers.clear();
    node.calls.length = 0;
  }
  await untilNodesUp(gateway, 2);
});

async function connect(wanted: WantedKey = writing): Promise<Caller> {
  const caller = await connectCaller(gateway, await gateway.issue(wanted));
  // Nothing may arrive before an answer.
  const call: Caller["call"] = async (method, params = '["0x12"]') =>
    JSON.parse(await caller.client.ask(request(method, params))) as Answer;
  return { ...caller, call };
}

const nodes = (): readonly ChainNode[] => [first, second];
const open = (method: string): number => first.open(method) + second.open(method);
const sent = (method: string): number => first.count(method) + second.count(method);
const notify = (method: string, result: string): void => {
  for (const node of nodes()) node.notify(method, result);
};
const script = (method: string, answer: string): void => {
  for (const node of nodes()) node.answers.set(method, answer);
};

function notification(id: unknown, method: string, member: string): string {
  return `{"jsonrpc":"2.0","method":"${method}","params":{"subscription":"${String(id)}",${member}}}`;
}

describe("submitting", () => {
  it("is refused and not listed without the capability, and over HTTP", async () => {
    await using reader = await connect({ capabilities: ["ledger:read"] });
    await using writer = await connect();
    const names = [
      "author_submitExtrinsic",
      legacy,
      "author_unwatchExtrinsic",
      watch,
      "transactionWatch_v1_unwatch",
      "transaction_v1_broadcast",
      "transaction_v1_stop",
    ];
    const listed = async ({ call }: Caller): Promise<readonly string[]> => {
      const { result } = await call("rpc_methods", "[]");
      const { methods } = result as { methods: string[] };
      return names.filter((name) => methods.includes(name));
    };
    assert.deepEqual(await listed(reader), []);
    assert.deepEqual(await listed(writer), names);
    for (const name of names) {
      assert.equal((await reader.call(name)).error?.code, -32601, name);
      const response = await fetch(gateway.url + path, {
        method: "POST",
        headers: {
          authorization: `Bearer ${(await gateway.issue(writing)).key}`,
          "content-type": "application/json",
        },
        body: request(name, '["0x12"]'),
      });
      assert.match(await response.text(), /-32601/, name);
      assert.equal(sent(name), 0, name);
    }
    assert.equal(await reader.used(), 100);
  });

  it("without a watch costs 10 CU, is passed on once, and the node's refusal is charged, too", async () => {
    await using writer = await connect();
    script("author_submitExtrinsic", '"result":"0xab"');
    assert.equal((await writer.call("author_submitExtrinsic")).result, "0xab");
    assert.equal(await writer.used(), 10_000);
    script("author_submitExtrinsic", '"error":{"code":1010,"message":"Invalid Transaction"}');
    assert.equal((await writer.call("author_submitExtrinsic")).error?.code, 1010);
    assert.equal(await writer.used(), 20_000);
    assert.equal(sent("author_submitExtrinsic"), 2);
  });

  for (const [method, notified, end, states] of [
    [
      legacy,
      "author_extrinsicUpdate",
      "author_unwatchExtrinsic",
      ['"ready"', '{"finalized":"0x"}'],
    ],
    [
      watch,
      "transactionWatch_v1_watchEvent",
      "transactionWatch_v1_unwatch",
      ['{"event":"validated"}', '{"event":"finalized", "block":{"hash":"0x","index":1}}'],
    ],
  ] as const) {
    it(`${method} passes on each state, costs 10 CU in total, and ends with the last state`, async () => {
      await using writer = await connect();
      const { result: id } = await writer.call(method);
      for (const state of states) {
        notify(method, state);
        assert.equal(await writer.client.next(), notification(id, notified, `"result":${state}`));
      }
      await until(() => open(method) === 0);
      assert.equal(sent(method), 1);
      const ended = await writer.call(end, `["${String(id)}"]`);
      if (method === legacy) assert.equal(ended.result, false);
      else assert.equal(ended.error?.code, -32602);
      assert.equal(await writer.used(), 10_000);
    });

    it(`${end} and leaving end the watch at the node`, async () => {
      await using writer = await connect();
      const { result: id } = await writer.call(method);
      assert.equal(open(method), 1);
      const ended = await writer.call(end, `["${String(id)}"]`);
      assert.equal(ended.result, method === legacy ? true : null);
      await until(() => open(method) === 0);
      await writer.call(method);
      await writer.client[Symbol.asyncDispose]();
      await until(() => open(method) === 0);
    });

    it(`${method} ends when the node is lost, and is not sent to another node`, async () => {
      await using writer = await connect();
      const { result: id } = await writer.call(method);
      for (const node of nodes()) if (node.open(method) === 1) node.cut();
      const last = JSON.parse(await writer.client.next()) as {
        params: { subscription: unknown; error?: { code: number }; result?: { event: string } };
      };
      assert.equal(last.params.subscription, id);
      if (method === legacy) assert.equal(last.params.error?.code, -32603);
      else assert.equal(last.params.result?.event, "dropped");
      assert.equal(sent(method), 1);
      assert.equal(await writer.used(), 10_000);
      // The next one works, at the other node.
      assert.equal(typeof (await writer.call(method)).result, "string");
      assert.equal(await writer.used(), 20_000);
    });

    it(`${method} is free if the node is lost before its answer, and is not sent again`, async () => {
      await using writer = await connect();
      script(method, "");
      const answer = writer.call(method);
      await until(() => sent(method) === 1);
      for (const node of nodes()) if (node.count(method) === 1) node.cut();
      assert.equal((await answer).error?.code, -32603);
      assert.equal(sent(method), 1);
      assert.equal(await writer.used(), 0);
    });

    it(`${method} that the node refuses is charged`, async () => {
      await using writer = await connect();
      script(method, '"error":{"code":1010,"message":"Invalid Transaction"}');
      assert.equal((await writer.call(method)).error?.code, 1010);
      assert.equal(await writer.used(), 10_000);
    });
  }

  it("is refused free of charge with wrong parameters and without credit", async () => {
    await using writer = await connect();
    for (const params of ["[]", "[7]", '["12"]', '["0x1"]', '["0x12",1]', '{"bytes":1}']) {
      assert.equal((await writer.call(watch, params)).error?.code, -32602, params);
    }
    assert.equal(await writer.used(), 0);
    await using poor = await connect({ ...writing, cuLimit24hMilli: 9_999 });
    assert.equal((await poor.call(watch)).error?.code, -32005);
    assert.equal((await poor.call("author_submitExtrinsic")).error?.code, -32005);
    assert.equal(sent(watch) + sent("author_submitExtrinsic"), 0);
  });

  it("is limited to 16 watches and broadcasts per connection", async () => {
    await using writer = await connect();
    script("transaction_v1_broadcast", '"result":"op"');
    script("transaction_v1_stop", '"result":null');
    const { result: operation } = await writer.call("transaction_v1_broadcast");
    assert.equal(typeof operation, "string");
    assert.equal(await writer.used(), 7_000);
    for (let count = 1; count < 16; count++) await writer.call(watch);
    assert.deepEqual((await writer.call(watch)).error, {
      code: -32006,
      message: "Too many subscriptions on the connection",
    });
    assert.equal((await writer.call("transaction_v1_broadcast")).result, null);
    assert.equal(await writer.used(), 157_000);
    const stop = `["${String(operation)}"]`;
    assert.equal((await writer.call("transaction_v1_stop", stop)).result, null);
    await until(() => sent("transaction_v1_stop") === 1);
    assert.equal((await writer.call("transaction_v1_stop", stop)).error?.code, -32602);
    assert.equal(typeof (await writer.call(watch)).result, "string");
  });

  it("ends the watch of a node that floods or sends anything other than JSON-RPC", async () => {
    await using writer = await connect();
    const attacks: readonly ((node: ChainNode) => void)[] = [
      (node) => node.say("{"),
      (node) => {
        for (let i = 0; i < 1000; i++) node.notify(watch, '{"event":"validated"}');
      },
    ];
    for (const attack of attacks) {
      await writer.call(watch);
      for (const node of nodes()) if (node.open(watch) === 1) attack(node);
      let last = await writer.client.next();
      while (last.includes("validated")) last = await writer.client.next();
      assert.match(last, /"event":"dropped"/);
    }
    await using other = await connect();
    assert.equal(typeof (await other.call("system_chain", "[]")).result, "string");
  });
});
