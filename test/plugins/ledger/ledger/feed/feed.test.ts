/** Subscriptions of the service `ledger` with scripted nodes: what moves them, what ends them, and what is refused. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OpenedSubscription, SubscriptionOpener } from "sluice-gateway/services";
import { startPool, until, type PoolUnderTest } from "../pool/nodes.ts";
import type { LedgerOptions } from "../start-ledger.ts";
import { ChainNode, hashOf, headerOf } from "./chain-node.ts";

const messageBytes = 4_000;
const storage = "state_subscribeStorage";
const heads = "chain_subscribeNewHeads";
const finalizedHeads = "chain_subscribeFinalizedHeads";

const hexOf = (chars: number): string => `0x${"5a".repeat(chars / 2)}`;
const storageOf = (...keys: readonly string[]): string => JSON.stringify([keys]);

const changes = (node: ChainNode, key: string, value: string): string =>
  `{"block":"${hashOf(node.best)}","changes":[["${key}","${value}"]]}`;

interface Feed extends PoolUnderTest {
  open(method: string, params?: string, opener?: SubscriptionOpener): Promise<OpenedSubscription>;
  /** Subscribes, and returns what the client receives, as soon as there is something. */
  subscribe(method: string, params?: string): Promise<string[]>;
  refusal(params: string): Promise<string>;
  moves(): number;
  /** Lets the time pass second by second. The nodes answer requests, pings and probes after each. */
  pass(seconds: number): Promise<void>;
}

async function start(nodes: readonly ChainNode[], options: LedgerOptions = {}): Promise<Feed> {
  const limits = { answerBytes: messageBytes, headersMs: 29_000, idleMs: 1_000 };
  const urls = nodes.map(({ url }) => url);
  const under = await startPool(urls, { ...limits, probeMs: 3_600_000, ...options });
  await under.probed;
  const { subscriptions } = under.ledger;
  const open: Feed["open"] = (name, params = "[]", opener) =>
    subscriptions.open(subscriptions.subscribing.get(name)!, params, opener);
  return Object.assign(under, {
    open,
    async subscribe(name: string, params?: string) {
      const received = receivedFrom(await open(name, params));
      await until(() => received.length > 0);
      return received;
    },
    async refusal(params: string) {
      const opened = await open(storage, params);
      assert.ok(opened.kind === "error", opened.kind);
      return opened.error;
    },
    moves: () => under.value('sluice_ledger_subscription_moves_total{upstream="ledger"}') ?? 0,
    async pass(seconds: number) {
      for (let passed = 0; passed < seconds; passed++) {
        under.clock.advance(1000);
        await turns();
      }
    },
  });
}

async function turns(): Promise<string> {
  for (let count = 0; count < 40; count++) await new Promise(setImmediate);
  return "waits";
}

function receivedFrom(opened: OpenedSubscription): string[] {
  assert.ok(opened.kind === "open", JSON.stringify(opened));
  const received: string[] = [];
  opened.subscription.start({
    onNotification: (result) => void received.push(result),
    onEnd: () => void received.push("end"),
  });
  return received;
}

test("a storage subscription that is too large does not disturb those of other workspaces", async () => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", '"0x01"').set("0xff", `"${hexOf(messageBytes)}"`);
  await using feed = await start([node]);
  const other = { key: "other", workspace: "other" };
  const opened = await feed.open(storage, storageOf("0xaa"), other);
  assert.equal(opened.kind, "open");
  const count = node.count(storage);
  await feed.refusal(storageOf("0xff"));
  assert.equal(node.count(storage), count + 2, "nothing but the refused one was opened");
});

test("a subscription is too large only if a second node says so, too", async () => {
  await using liar = await ChainNode.start();
  await using honest = await ChainNode.start();
  liar.storage.set("0xaa", `"${hexOf(messageBytes)}"`);
  honest.storage.set("0xaa", '"0x01"');
  await using feed = await start([liar, honest]);
  assert.deepEqual(await feed.subscribe(storage, storageOf("0xaa")), [
    changes(honest, "0xaa", "0x01"),
  ]);
});

test("a storage subscription that no node answers fails, and one that is open is opened again", async () => {
  await using node = await ChainNode.start();
  node.storage.set("0xaa", '"0x01"');
  await using feed = await start([node]);
  const values = await feed.subscribe(storage, storageOf("0xaa"));
  node.answers.set(storage, "");
  const asked = node.count(storage);
  node.cut();
  await until(() => node.count(storage) === asked + 1);
  const opened = feed.open(storage, storageOf("0xcc"));
  await until(() => node.count(storage) > asked + 1);
  feed.clock.advance(31_000);
  assert.equal((await opened).kind, "failed");
  node.answers.clear();
  node.storage.set("0xaa", '"0x03"');
  await until(() => {
    feed.clock.advance(100);
    return values.length > 1;
  });
  assert.equal(values[1], changes(node, "0xaa", "0x03"));
});

test("repeated losses of the only node are answered with growing delays", async () => {
  await using node = await ChainNode.start();
  await using feed = await start([node]);
  const received = await feed.subscribe(heads);
  const lose = async (): Promise<void> => {
    const opened = node.count(heads);
    node.say("{");
    await until(() => node.open(heads) === 0 || node.count(heads) > opened);
  };
  await lose();
  await until(() => node.open(heads) === 1);
  for (const ms of [400, 800, 1600, 3200, 5000, 5000]) {
    const calls = node.count(heads);
    await lose();
    await until(() => feed.moves() > 0 && node.open(heads) === 0);
    feed.clock.advance(ms - 1);
    assert.equal(node.count(heads), calls);
    feed.clock.advance(1);
    await until(() => node.open(heads) === 1);
    assert.equal(node.count(heads), calls + 1);
  }
  feed.clock.advance(10_000);
  await lose();
  await until(() => node.open(heads) === 1);
  node.advance(node.best + 1);
  await until(() => received.length === 2);
});

for (const [method, head] of [
  [heads, { best: 101, finalized: 100 }],
  ["chain_subscribeAllHeads", { best: 101, finalized: 100 }],
  [finalizedHeads, { best: 101, finalized: 101 }],
] as const) {
  test(`a node that sends no more notifications of ${method}, although it has new blocks, is left`, async () => {
    await using first = await ChainNode.start();
    await using second = await ChainNode.start();
    await using feed = await start([first, second], { probeMs: 1000 });
    const received = await feed.subscribe(method);
    await feed.pass(25);
    assert.equal(feed.moves(), 0, "without new blocks, the node has nothing to send");
    Object.assign(first, head);
    second.extend(head.best);
    second.finalize(head.finalized);
    await feed.pass(19);
    assert.equal(feed.moves(), 0);
    await feed.pass(3);
    assert.equal(feed.moves(), 1);
    await until(() => received.length > 1);
    assert.deepEqual(received, [headerOf(100), headerOf(101)]);
  });
}

test("a node that sends each head late is not left", async () => {
  await using first = await ChainNode.start();
  await using second = await ChainNode.start();
  await using feed = await start([first, second], { probeMs: 1000 });
  const received = await feed.subscribe(heads);
  for (let blocks = 1; blocks <= 5; blocks++) {
    first.best = 102 + blocks;
    await feed.pass(12);
    first.notify(heads, headerOf(100 + blocks));
    await until(() => received.length === 1 + blocks);
  }
  assert.equal(feed.moves(), 0);
});

test("a client that waits for more than two seconds gets an error, and the others continue", async () => {
  await using first = await ChainNode.start();
  await using second = await ChainNode.start();
  await using feed = await start([first, second]);
  const received = await feed.subscribe(finalizedHeads);
  // A read gets a finalized block that the node has not announced to its subscribers.
  first.best = first.finalized = 105;
  assert.equal(await feed.outcome("archive_v1_finalizedHeight"), "105");
  const opening = feed.open(finalizedHeads);
  await feed.pass(3);
  assert.equal((await opening).kind, "failed");
  first.notify(finalizedHeads, headerOf(101));
  await until(() => received.length === 2);
});

test("a new client gets an error if there is no reference node for two seconds", async () => {
  const node = await ChainNode.start();
  await using feed = await start([node]);
  await node[Symbol.asyncDispose]();
  const opening = feed.open(heads);
  await feed.pass(1);
  feed.clock.advance(999);
  assert.equal(await Promise.race([opening, turns()]), "waits");
  feed.clock.advance(1);
  assert.equal((await opening).kind, "failed");
});

/** Lets the chain of a node start again, until the gateway has accepted that. */
async function restart(node: ChainNode, feed: Feed, ended: readonly string[]): Promise<void> {
  node.best = node.finalized = 5;
  node.cut();
  await feed.probes(() => {
    if (feed.nodes()[0]?.best === node.best) node.advance(node.best + 1);
    return ended.includes("end");
  });
}

test("subscriptions end when the chain has started again, and new clients get its heads", async () => {
  await using node = await ChainNode.start();
  await using feed = await start([node], { probeMs: 5_000 });
  const received = await feed.subscribe(finalizedHeads);
  await restart(node, feed, received);
  assert.deepEqual(received, [headerOf(100), "end"]);
  assert.deepEqual(await feed.subscribe(finalizedHeads), [headerOf(node.finalized)]);
});

test("a client that starts after its subscription has ended is notified of the end", async () => {
  await using node = await ChainNode.start();
  await using feed = await start([node], { probeMs: 5_000 });
  const opened = await feed.open(heads);
  await restart(node, feed, await feed.subscribe(heads));
  assert.deepEqual(receivedFrom(opened), ["end"]);
});

const openerOf = (name: string): SubscriptionOpener => ({
  key: `key_${name}`,
  workspace: `ws_${name}`,
});
const keysOf = (...keys: readonly string[]): string => JSON.stringify([keys]);

async function microtasks(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await Promise.resolve();
}

test("a workspace has at most half of the storage subscriptions that are free; heads do not count", async () => {
  await using node = await ChainNode.start();
  await using feed = await start([node]);
  const refusedAt = async (opener: SubscriptionOpener): Promise<number> => {
    for (let count = 0; ; count++) {
      // Without a node that has answered, only a refusal is available at once.
      const opening = feed.open(
        storage,
        keysOf(`0x${count.toString(16).padStart(4, "0")}${opener.key === "key_a" ? "aa" : "bb"}`),
        opener,
      );
      const opened = await Promise.race([opening, microtasks(8)]);
      if (opened !== undefined) return opened.kind === "error" ? count : NaN;
    }
  };
  assert.equal(await refusedAt(openerOf("a")), 256);
  assert.equal(await refusedAt(openerOf("b")), 128);
  const opened = await feed.open(heads, "", openerOf("a"));
  assert.equal(opened.kind, "open");
});

test("a node that lags does not repeat justifications", async () => {
  const method = "grandpa_subscribeJustifications";
  await using ahead = await ChainNode.start();
  await using behind = await ChainNode.start();
  await using feed = await start([ahead, behind]);
  const received = receivedFrom(await feed.open(method));
  const say = (node: ChainNode, from: number, to: number): void => {
    for (let n = from; n <= to; n++) node.notify(method, `"0x${n}"`);
  };
  say(ahead, 0, 99);
  await until(() => received.length === 100);
  await ahead[Symbol.asyncDispose]();
  await until(() => behind.open(method) === 1);
  say(behind, 36, 100);
  // The number of remembered ones is limited.
  say(behind, 0, 0);
  await until(() => received.includes('"0x100"') && received.length > 101);
  assert.deepEqual(received.slice(100), ['"0x100"', '"0x0"']);
});
