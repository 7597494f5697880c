/** Subscriptions over WebSocket, through the shipped pipeline, with scripted nodes. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { ChainNode, hashOf, headerOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { path, startShipped, usedBy } from "./shipped-gateway.ts";
import { connectWs, type WsClient } from "./ws-client.ts";

const stack = new AsyncDisposableStack();
let first: ChainNode;
let second: ChainNode;
let gateway: TestGateway;

before(async () => {
  first = stack.use(await ChainNode.start());
  second = stack.use(await ChainNode.start());
  gateway = await startShipped([first, second]);
  stack.use(gateway);
});
after(() => stack.disposeAsync());

const connect = async (): Promise<WsClient> =>
  connectWs(gateway.url + path, { key: (await gateway.issue({})).key });

async function subscribe(client: WsClient, method: string, params = "[]"): Promise<string> {
  const { result, error } = JSON.parse(await client.ask(request(method, params))) as {
    result: string;
    error: unknown;
  };
  assert.equal(error, undefined, JSON.stringify(error));
  return result;
}

const notification = (id: string, method: string, result: string): string =>
  `{"jsonrpc":"2.0","method":"${method}","params":{"subscription":"${id}","result":${result}}}`;

/** Both nodes have the same chain. */
function advance(to: number): void {
  first.advance(to);
  second.advance(to);
}

const open = (method: string): number => first.open(method) + second.open(method);

const current = (): ChainNode => (first.subscribers.size > 0 ? first : second);

/** Makes the gateway move to the other node, and waits until it has these subscriptions. */
async function move(...methods: readonly string[]): Promise<void> {
  const old = current();
  const other = old === first ? second : first;
  await untilNodesUp(gateway, 2);
  old.cut();
  await until(() => methods.every((method) => other.open(method) === 1));
}

describe("subscriptions", () => {
  it("begin with the current head, follow the chain byte for byte, and are charged exactly", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    const id = await subscribe(client, "chain_subscribeNewHead");
    assert.equal(await client.next(), notification(id, "chain_newHead", headerOf(first.best)));
    assert.equal(await usedBy(gateway, workspaceId), 1000 + 100);
    advance(first.best + 2);
    for (const number of [first.best - 1, first.best]) {
      assert.equal(await client.next(), notification(id, "chain_newHead", headerOf(number)));
    }
    assert.equal(await usedBy(gateway, workspaceId), 1000 + 300);
    assert.match(
      await client.ask(request("chain_unsubscribeNewHead", `["${id}"]`)),
      /"result":true/,
    );
    assert.match(
      await client.ask(request("chain_unsubscribeNewHeads", `["${id}"]`)),
      /"result":false/,
    );
    advance(first.best + 1);
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
    assert.equal(await usedBy(gateway, workspaceId), 1000 + 300 + 100);
  });

  it("are shared by all clients, and released at the node after the last one has left", async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, connect));
    for (const client of clients) {
      const id = await subscribe(client, "chain_subscribeFinalizedHeads");
      assert.equal(
        await client.next(),
        notification(id, "chain_finalizedHead", headerOf(first.best)),
      );
    }
    assert.equal(open("chain_subscribeFinalizedHeads"), 1);
    advance(first.best + 1);
    for (const client of clients) assert.match(await client.next(), /chain_finalizedHead/);
    for (const client of clients) await client[Symbol.asyncDispose]();
    await until(() => open("chain_subscribeFinalizedHeads") === 0);
  });

  it("of storage first get the values of all their keys, and are not shared", async () => {
    for (const node of [first, second]) node.storage.set("0xaa", '"0x01"');
    await using client = await connect();
    const id = await subscribe(client, "state_subscribeStorage", '[["0xBB","0xaa","0xaa"]]');
    const values = `{"block":"${hashOf(first.best)}","changes":[["0xaa","0x01"],["0xbb",null]]}`;
    assert.equal(await client.next(), notification(id, "state_storage", values));
    const change = `{"block":"${hashOf(first.best + 1)}", "changes":[["0xbb","0x07"]]}`;
    current().notify("state_subscribeStorage", change);
    assert.equal(await client.next(), notification(id, "state_storage", change));
    await using other = await connect();
    const second_ = await subscribe(other, "state_subscribeStorage", '[["0xaa","0xbb"]]');
    assert.equal(await other.next(), notification(second_, "state_storage", values));
    assert.equal(open("state_subscribeStorage"), 2);
  });

  it("of justifications send each one once, and are charged exactly", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    const method = "grandpa_subscribeJustifications";
    const id = await subscribe(client, method);
    assert.equal(await usedBy(gateway, workspaceId), 1000);
    for (const justification of ['"0x01"', '"0x02"']) {
      current().notify(method, justification);
      const expected = notification(id, "grandpa_justifications", justification);
      assert.equal(await client.next(), expected);
    }
    assert.equal(await usedBy(gateway, workspaceId), 1000 + 200);
    await client.ask(request("grandpa_unsubscribeJustifications", `["${id}"]`));
  });

  it("are refused free of charge without valid keys, in a batch, over HTTP and above 64", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    const codeOf = async (text: string): Promise<unknown> =>
      (JSON.parse(await client.ask(text)) as { error: { code: number } }).error.code;
    for (const params of ["[]", "[[]]", '[["zz"]]', "[7]", "{}"]) {
      assert.equal(await codeOf(request("state_subscribeStorage", params)), -32602, params);
    }
    const [inBatch] = JSON.parse(await client.ask(`[${request("chain_subscribeNewHeads")}]`)) as [
      { error: { code: number } },
    ];
    assert.equal(inBatch.error.code, -32601);
    const response = await fetch(gateway.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: request("chain_subscribeNewHeads"),
    });
    assert.match(await response.text(), /-32601/);
    assert.equal(await usedBy(gateway, workspaceId), 0);
    for (let i = 0; i < 64; i++) await subscribe(client, "grandpa_subscribeJustifications");
    assert.match(
      await client.ask(request("grandpa_subscribeJustifications")),
      /"error":\{"code":-32006,"message":"Too many subscriptions on the connection"\}/,
    );
    assert.equal(await usedBy(gateway, workspaceId), 64_000);
    assert.equal(open("grandpa_subscribeJustifications"), 1);
  });

  it("end with an error when the credit is used up, and nothing more is charged", async () => {
    const { key, workspaceId } = await gateway.issue({ cuLimit24hMilli: 1250 });
    await using client = await connectWs(gateway.url + path, { key });
    const id = await subscribe(client, "chain_subscribeNewHeads");
    assert.match(await client.next(), /"result":/);
    advance(first.best + 3);
    assert.match(await client.next(), /"result":/);
    const last = JSON.parse(await client.next()) as {
      method: string;
      params: { subscription: string; error: { code: number; data: { errorCode: string } } };
    };
    assert.equal(last.method, "chain_newHead");
    assert.equal(last.params.subscription, id);
    assert.equal(last.params.error.code, -32005);
    assert.equal(last.params.error.data.errorCode, "GATEWAY_CU_LIMIT_EXCEEDED");
    assert.equal(await usedBy(gateway, workspaceId), 1200);
    advance(first.best + 1);
    assert.match(
      await client.ask(request("chain_unsubscribeNewHeads", `["${id}"]`)),
      /"result":false/,
    );
  });
});

describe("after the loss of the node", () => {
  it("heads continue without a gap and without a repeated head", async () => {
    await using client = await connect();
    const newHeads = await subscribe(client, "chain_subscribeNewHeads");
    assert.equal(
      await client.next(),
      notification(newHeads, "chain_newHead", headerOf(first.best)),
    );
    const finalized = await subscribe(client, "chain_subscribeFinalizedHeads");
    assert.match(await client.next(), /chain_finalizedHead/);
    const old = current();
    const other = old === first ? second : first;
    const from = old.best;
    // The other node is three blocks ahead, and the client must get the blocks in between.
    other.advance(from + 3);
    await move("chain_subscribeNewHeads", "chain_subscribeFinalizedHeads");
    const seen: string[] = [];
    while (seen.length < 6) seen.push(await client.next());
    const of = (id: string, method: string): readonly string[] =>
      [from + 1, from + 2, from + 3].map((n) => notification(id, method, headerOf(n)));
    assert.deepEqual(
      seen.toSorted(),
      [...of(newHeads, "chain_newHead"), ...of(finalized, "chain_finalizedHead")].toSorted(),
    );
    assert.deepEqual(
      seen.filter((text) => text.includes("newHead")),
      of(newHeads, "chain_newHead"),
    );
    // The first node is behind now, so the subscriptions return to the second one.
    const methods = ["chain_subscribeNewHeads", "chain_subscribeFinalizedHeads"];
    const opened = methods.map((method) => other.count(method));
    other.cut();
    await until(() =>
      methods.every((name, at) => other.count(name) > opened[at]! && other.open(name) === 1),
    );
    old.advance(from + 4);
    other.advance(from + 4);
    const last = [await client.next(), await client.next()];
    const [head] = [headerOf(from + 4)];
    assert.deepEqual(last.toSorted(), [
      notification(finalized, "chain_finalizedHead", head),
      notification(newHeads, "chain_newHead", head),
    ]);
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
  });

  it("values are sent again only if they have changed, and those of storage always", async () => {
    await using client = await connect();
    for (const node of [first, second]) node.storage.set("0xcc", '"0x01"');
    const version = await subscribe(client, "state_subscribeRuntimeVersion");
    assert.equal(await client.next(), notification(version, "state_runtimeVersion", first.runtime));
    const storage = await subscribe(client, "state_subscribeStorage", '[["0xcc","0xdd"]]');
    assert.match(await client.next(), /state_storage/);
    const other = current() === first ? second : first;
    other.storage.set("0xcc", '"0x02"');
    await move("state_subscribeRuntimeVersion", "state_subscribeStorage");
    const values = `{"block":"${hashOf(other.best)}","changes":[["0xcc","0x02"],["0xdd",null]]}`;
    assert.equal(await client.next(), notification(storage, "state_storage", values));
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
  });

  it("a node that sends too much, or anything other than JSON-RPC, is left", async () => {
    await using client = await connect();
    await subscribe(client, "chain_subscribeAllHeads");
    assert.match(await client.next(), /chain_allHead/);
    const hostile: ((node: ChainNode) => void)[] = [
      (node) => node.say("{"),
      (node) => node.notify("chain_subscribeAllHeads", headerOf(2 ** 40)),
      (node) => {
        for (let i = 0; i < 1000; i++) node.notify("grandpa_subscribeJustifications", `"${i}"`);
        for (let i = 0; i < 1000; i++)
          node.notify("chain_subscribeAllHeads", headerOf(node.best, i));
      },
    ];
    for (const attack of hostile) {
      await untilNodesUp(gateway, 2);
      const node = current();
      attack(node);
      await until(
        () => node.subscribers.size === 0 && current() !== node && current().subscribers.size > 0,
      );
    }
    // The earlier messages of the node have no effect, and the connection still works.
    let answer = await client.ask(request("system_chain"));
    while (!answer.includes('"result":"Test"')) answer = await client.next();
  });
});
