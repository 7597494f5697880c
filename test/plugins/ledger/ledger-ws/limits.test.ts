/** Limits of subscriptions and submissions, and the finalized head, which does not go back for a client. */
import assert from "node:assert/strict";
import { after, before, describe, it, test } from "node:test";
import type { TestGateway, TestKey } from "../../../../plugins/contracts/testing.ts";
import { ChainNode, hashOf, headerOf } from "../ledger/feed/chain-node.ts";
import { request } from "../ledger/fixture.ts";
import { until } from "../until.ts";
import { connectCaller, startShipped, type Answer, type Caller } from "./shipped-gateway.ts";
import { type WsClient, connectWs } from "./ws-client.ts";

const answerBytes = 20_000;
const heads = "chain_subscribeNewHeads";
const storage = "state_subscribeStorage";
const watch = "transactionWatch_v1_submitAndWatch";
const tooManyOfKey = { code: -32006, message: "Too many subscriptions of the key" };
const large = `"0x${"5a".repeat(answerBytes / 2)}"`;

const stack = new AsyncDisposableStack();
let node: ChainNode;
let shared: TestGateway;

before(async () => {
  node = stack.use(await ChainNode.start());
  shared = await startShipped([node], {
    upstream: `probeMs: 100\n    answerBytes: ${answerBytes}`,
    surface: "subscriptionsPerKey: 2, submissionsPerKey: 2, write: true",
  });
  stack.use(shared);
});
after(() => stack.disposeAsync());

interface Client extends Omit<Caller, "call"> {
  readonly call: (method: string, params?: unknown) => Promise<Answer>;
}

async function connect(given: TestKey): Promise<Client> {
  const caller = await connectCaller(shared, given);
  return {
    ...caller,
    call: (method, params = []) => caller.call(method, JSON.stringify(params)),
  };
}

async function nextOf(client: WsClient, notification: string): Promise<string> {
  for (;;) {
    const text = await client.next();
    if (text.includes(`"method":"${notification}"`)) return text;
    assert.ok(text.startsWith("{"), text);
  }
}

describe("a key", () => {
  it("has a limited number of different subscriptions, on all its connections", async () => {
    const key = await shared.issue({});
    await using one = await connect(key);
    await using two = await connect(key);
    for (let time = 0; time < 5; time++) {
      assert.equal(typeof (await one.call(heads)).result, "string");
      assert.equal(typeof (await two.call(heads)).result, "string");
    }
    const { result: id } = await one.call(storage, [["0xaa"]]);
    assert.equal(typeof id, "string");
    assert.deepEqual((await two.call(storage, [["0xbb"]])).error, tooManyOfKey);
    assert.equal(typeof (await two.call(storage, [["0xaa"]])).result, "string");
    await using other = await connect(await shared.issue({}));
    assert.equal(typeof (await other.call(storage, [["0xbb"]])).result, "string");
    // The quota is free when nobody with this key has the subscription any more.
    assert.equal((await one.call("state_unsubscribeStorage", [id])).result, true);
    assert.deepEqual((await one.call(storage, [["0xcc"]])).error, tooManyOfKey);
    await two[Symbol.asyncDispose]();
    await until(async () => (await one.call(storage, [["0xcc"]])).error === undefined);
    assert.ok((await one.used()) >= 13_000, "refused subscriptions are free");
  });

  it("uses its quota once for equal subscriptions, however they are written", async () => {
    await using one = await connect(await shared.issue({}));
    assert.equal(typeof (await one.call(heads)).result, "string");
    for (const params of [
      [["0xaa", "0xbb"]],
      [["0xBB", "0xAA", "0xaa"]],
      { keys: ["0xbb", "0xAa"] },
    ]) {
      assert.equal(typeof (await one.call(storage, params)).result, "string");
    }
    assert.equal(typeof (await one.call("chain_subscribeNewHead", [null])).result, "string");
    assert.deepEqual((await one.call(storage, [["0xaa"]])).error, tooManyOfKey);
  });

  it("gets its quota back for a subscription that the node refuses", async () => {
    await using one = await connect(await shared.issue({}));
    for (let time = 0; time < 3; time++) {
      assert.equal((await one.call("beefy_subscribeJustifications", [time])).error?.code, -32601);
    }
    assert.equal(typeof (await one.call(heads)).result, "string");
  });

  it("has a limited number of watched and broadcast extrinsics, on all its connections", async () => {
    const writing = { capabilities: ["ledger:read", "ledger:write"] } as const;
    const key = await shared.issue(writing);
    await using one = await connect(key);
    await using two = await connect(key);
    const { result: id } = await one.call(watch, ["0x12"]);
    assert.equal(typeof id, "string");
    assert.equal(typeof (await two.call(watch, ["0x12"])).result, "string");
    assert.deepEqual((await two.call(watch, ["0x12"])).error, tooManyOfKey);
    assert.equal((await two.call("transaction_v1_broadcast", ["0x12"])).result, null);
    assert.equal(node.count(watch), 2);
    await using other = await connect(await shared.issue(writing));
    assert.equal(typeof (await other.call(watch, ["0x12"])).result, "string");
    assert.equal((await one.call("transactionWatch_v1_unwatch", [id])).result, null);
    assert.equal(typeof (await two.call(watch, ["0x12"])).result, "string");
  });
});

describe("a storage subscription that does not fit into a message", () => {
  it("is refused free of charge, and the others continue", async () => {
    await using reader = await connect(await shared.issue({}));
    await reader.call(heads);
    assert.match(await nextOf(reader.client, "chain_newHead"), /"number"/);
    node.storage.set("0xf1", large);
    const key = await shared.issue({});
    await using greedy = await connect(key);
    for (let time = 0; time < 3; time++) {
      assert.equal((await greedy.call(storage, [["0xf1", `0x0${time}`]])).error?.code, -32008);
    }
    assert.equal(await greedy.used(), 0);
    assert.equal(node.count(heads), 1, "the connection of the others was not lost");
    node.advance(node.best + 1);
    assert.ok((await nextOf(reader.client, "chain_newHead")).includes(headerOf(node.best)));
  });

  it("ends with an error if that is so only later, and the others continue without a gap", async () => {
    await using reader = await connect(await shared.issue({}));
    await reader.call(heads);
    await nextOf(reader.client, "chain_newHead");
    await using growing = await connect(await shared.issue({}));
    const { result: id } = await growing.call(storage, [["0xf2"]]);
    await nextOf(growing.client, "state_storage");
    const opened = node.count(heads);
    node.storage.set("0xf2", large);
    node.notify(storage, `{"block":"${hashOf(node.best)}","changes":[["0xf2",${large}]]}`);
    const last = JSON.parse(await nextOf(growing.client, "state_storage")) as {
      params: { subscription: string; error: { code: number } };
    };
    assert.equal(last.params.subscription, id);
    assert.equal(last.params.error.code, -32008);
    assert.equal(node.count(heads), opened, "the connection of the others was not lost");
    const head = node.best;
    node.advance(head + 2);
    for (const number of [head + 1, head + 2]) {
      assert.ok((await nextOf(reader.client, "chain_newHead")).includes(headerOf(number)));
    }
  });
});

/** Starts a gateway that probes its nodes only once, so that it does not learn of new blocks from probes. */
const startGateway = (...nodes: readonly ChainNode[]): Promise<TestGateway> =>
  startShipped(nodes, { upstream: "probeMs: 3600000" });

test("a read of the finalized head is not behind the heads that a subscription has sent", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway(ahead, behind);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chain_subscribeFinalizedHeads"));
  await client.next();
  assert.equal(ahead.open("chain_subscribeFinalizedHeads"), 1);
  ahead.advance(103);
  for (let number = 101; number <= 103; number++) {
    assert.ok((await client.next()).includes(`"number":"0x${number.toString(16)}"`));
  }
  for (let read = 0; read < 4; read++) {
    const answer = await client.ask(request("chain_getFinalizedHead"));
    assert.equal((JSON.parse(answer) as { result: string }).result, hashOf(103));
  }
});

test("a read at a block that a subscription has announced is answered, although another node lacks it", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  const unknown = '"error":{"code":4003,"message":"Client error: UnknownBlock"}';
  ahead.answers.set("state_getStorage", '"result":"0x01"');
  behind.answers.set("state_getStorage", unknown);
  await using gateway = await startGateway(ahead, behind);
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, {
    key: (await gateway.issue({})).key,
  });
  await client.ask(request("chain_subscribeNewHeads"));
  await client.next();
  assert.equal(ahead.open("chain_subscribeNewHeads"), 1);
  ahead.advance(101);
  await client.next();
  for (const key of ["0x11", "0x12", "0x13", "0x14"]) {
    const params = JSON.stringify([key, hashOf(101)]);
    const answer = await client.ask(request("state_getStorage", params));
    assert.equal((JSON.parse(answer) as { result: string }).result, "0x01");
  }
});

const follow = request("chainHead_v1_follow", "[false]");

test("a follow fails after two seconds if no node has finalized what the client knows", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway(ahead, behind);
  const { key } = await gateway.issue({});
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  await client.ask(follow);
  ahead.advance(101);
  while (!(await client.next()).includes('"finalized"'));
  await ahead[Symbol.asyncDispose]();
  assert.match(await client.next(), /"stop"/);
  assert.match(await client.ask(follow), /-32603/);
  assert.match(await client.ask(request("chain_getFinalizedHead")), /-32603/);
});

test("the finalized head does not go back when a reload changes the nodes", async () => {
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using gateway = await startGateway(ahead, behind);
  const { key } = await gateway.issue({});
  await using client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  ahead.advance(101);
  const head = request("chain_getFinalizedHead");
  assert.ok((await client.ask(head)).includes(hashOf(101)));
  const { text } = gateway.gateway.config;
  const urls = `urls: ${behind.url},${ahead.url}`;
  await gateway.write(text.replace(/urls: \$\{LEDGER_RPC_URL.*/, urls));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  // An open connection keeps the nodes that it has.
  await using next = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
  assert.ok((await next.ask(head)).includes(hashOf(101)));
});
