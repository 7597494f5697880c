/** The reads `archive_v1_storage` and `archive_v1_storageDiff` through the shipped pipeline, with scripted nodes. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it } from "node:test";
import type { TestGateway, TestKey, WantedKey } from "../../../../plugins/contracts/testing.ts";
import { ArchiveNode, done, value } from "../ledger/archive/archive-node.ts";
import { request } from "../ledger/fixture.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { connectCaller, path, startShipped, type Answer, type Caller } from "./shipped-gateway.ts";

const storage = "archive_v1_storage";
const diff = "archive_v1_storageDiff";
const hash = `0x${"11".repeat(32)}`;
const items = [{ key: "0x01", type: "value" }];
const methodNotFound = '{"code":-32601,"message":"Method not found"}';

const stack = new AsyncDisposableStack();
let first: ArchiveNode;
let second: ArchiveNode;
let gateway: TestGateway;

before(async () => {
  first = stack.use(await ArchiveNode.start());
  second = stack.use(await ArchiveNode.start());
  gateway = await startShipped([first, second], { surface: "archiveReadsPerKey: 6" });
  stack.use(gateway);
});
after(() => stack.disposeAsync());
beforeEach(async () => {
  for (const node of [first, second]) {
    node.events = [value("0x01"), done];
    node.refusal = undefined;
    node.calls.length = 0;
  }
  await untilNodesUp(gateway, 2);
});

interface Reader extends Omit<Caller, "call"> {
  readonly call: (method: string, params: unknown) => Promise<Answer>;
  readonly begin: (method?: string, params?: unknown) => Promise<string>;
}

async function connect(limits: WantedKey = {}, given?: TestKey): Promise<Reader> {
  const caller = await connectCaller(gateway, given ?? (await gateway.issue(limits)));
  // Nothing may arrive before an answer.
  const call: Reader["call"] = async (method, params) =>
    JSON.parse(await caller.client.ask(request(method, JSON.stringify(params)))) as Answer;
  return {
    ...caller,
    call,
    async begin(method = storage, params = [hash, items, null]) {
      const { result, error } = await call(method, params);
      assert.equal(error, undefined, JSON.stringify(error));
      return String(result);
    },
  };
}

const notification = (id: string, result: string, method = storage): string =>
  `{"jsonrpc":"2.0","method":"${method}Event","params":{"subscription":"${id}","result":${result}}}`;
const nodes = (): readonly ArchiveNode[] => [first, second];
const sent = (): readonly string[] => nodes().flatMap(({ calls }) => calls);
const reading = (): number => first.reads.size + second.reads.size;

describe("a read of archive_v1", () => {
  it("passes on the node's events byte for byte, is charged exactly, and ends by itself", async () => {
    await using reader = await connect();
    const id = await reader.begin();
    assert.equal(await reader.client.next(), notification(id, value("0x01")));
    assert.equal(await reader.client.next(), notification(id, done));
    assert.equal(await reader.used(), 500 + 2 * 100);
    assert.deepEqual(sent(), [`${storage} ["${hash}",[{"key":"0x01","type":"value"}],null]`]);
    assert.deepEqual(await reader.call("archive_v1_stopStorage", [id]), {
      jsonrpc: "2.0",
      id: 1,
      result: null,
    });
    assert.equal(sent().length, 1, "the node has finished");
    assert.equal(await reader.used(), 500 + 2 * 100, "stopping is free");
    const three = ["0x01", "0x02", "0x03"].map((key) => ({ key, type: "hash" }));
    await reader.begin(storage, [hash, three]);
    for (let n = 0; n < 2; n++) await reader.client.next();
    assert.equal(await reader.used(), 2 * (500 + 200) + 2 * 500, "each item has its price");
  });

  it("of a difference has its own events, and asks for the whole trie if no items are given", async () => {
    await using reader = await connect();
    const change = '{"event":"storageDiff","key":"0x01","value":"0x02","type":"added"}';
    const end = '{"event":"storageDiffDone"}';
    for (const node of nodes()) node.events = [change, end];
    const id = await reader.begin(diff, { hash: hash.toUpperCase().replace("0X", "0x") });
    assert.equal(await reader.client.next(), notification(id, change, diff));
    assert.equal(await reader.client.next(), notification(id, end, diff));
    assert.deepEqual(sent(), [`${diff} ["${hash}",[{"key":"0x","returnType":"value"}],null]`]);
    assert.equal(await reader.used(), 1000 + 2 * 100);
    const some = [{ key: "0xAB", returnType: "hash", childTrieKey: "0xcd", more: 1 }];
    await reader.begin(diff, [hash, some, hash]);
    assert.equal(
      sent().at(-1),
      `${diff} ["${hash}",[{"key":"0xab","returnType":"hash","childTrieKey":"0xcd"}],"${hash}"]`,
    );
  });

  it("that the client stops is stopped at the node, under both names of the method", async () => {
    await using reader = await connect();
    for (const node of nodes()) node.events = [];
    const stops = [
      [storage, "archive_v1_stopStorage", [hash, items, null]],
      [diff, "archive_v1_stopStorageDiff", [hash]],
      [diff, "archive_v1_storageDiff_stopStorageDiff", [hash]],
    ] as const;
    for (const [method, stop, params] of stops) {
      const id = await reader.begin(method, params);
      assert.equal(reading(), 1);
      assert.equal((await reader.call("archive_v1_stopStorage", ["unknown"])).result, null);
      assert.equal((await reader.call(stop, [id])).result, null);
      await until(() => reading() === 0);
    }
    assert.equal(await reader.used(), 500 + 2 * 1000);
  });

  it("ends at the node when the client leaves", async () => {
    for (const node of nodes()) node.events = [];
    const reader = await connect();
    await reader.begin();
    assert.equal(reading(), 1);
    await reader[Symbol.asyncDispose]();
    await until(() => reading() === 0);
  });

  it("ends with the error of its protocol when the credit is used up", async () => {
    await using reader = await connect({ cuLimit24hMilli: 650 });
    for (const node of nodes()) node.events = [value("0x01")];
    const id = await reader.begin();
    assert.equal(await reader.client.next(), notification(id, value("0x01")));
    for (const node of nodes()) node.say(value("0x02"));
    const error = "the gateway has ended the read: GATEWAY_CU_LIMIT_EXCEEDED";
    assert.equal(
      await reader.client.next(),
      notification(id, JSON.stringify({ event: "storageError", error })),
    );
    await until(() => reading() === 0);
    assert.equal(await reader.used(), 600);
    assert.equal((await reader.call(storage, [hash, items, null])).error?.code, -32005);
  });

  it("ends with the error of its protocol when the node is lost or breaks the protocol", async () => {
    await using reader = await connect();
    const attacks: ((node: ArchiveNode) => void)[] = [
      (node) => node.cut(),
      (node) => node.say('{"event":"other"}'),
      (node) => node.say("7"),
    ];
    for (const attack of attacks) {
      await untilNodesUp(gateway, 2);
      for (const node of nodes()) node.events = [value("0x01")];
      const id = await reader.begin();
      assert.match(await reader.client.next(), /"event":"storage"/);
      for (const node of nodes()) attack(node);
      const last = await reader.client.next();
      assert.match(last, /"event":"storageError","error":"[^"]*UPSTREAM_ERROR"/);
      assert.ok(last.includes(id));
    }
  });
});

describe("a pool with nodes that differ", () => {
  it("reads from a node that has the methods", async () => {
    await using reader = await connect();
    first.refusal = methodNotFound;
    for (let time = 0; time < 4; time++) {
      const id = await reader.begin();
      assert.equal(await reader.client.next(), notification(id, value("0x01")));
      assert.equal(await reader.client.next(), notification(id, done));
    }
    second.refusal = methodNotFound;
    const used = await reader.used();
    const { error } = await reader.call(storage, [hash, items, null]);
    assert.deepEqual(error, JSON.parse(methodNotFound));
    assert.equal(await reader.used(), used, "a refusal is free");
  });

  it("reads from another node if the first one fails before its first result", async () => {
    await using reader = await connect();
    const failure = '{"event":"storageError","error":"unknown block"}';
    for (const node of nodes()) node.events = [failure];
    const id = await reader.begin();
    assert.equal(await reader.client.next(), notification(id, failure));
    assert.deepEqual([first.count(storage), second.count(storage)], [1, 1]);
    first.events = [value("0x01"), done];
    for (let time = 0; time < 2; time++) {
      const again = await reader.begin();
      assert.equal(await reader.client.next(), notification(again, value("0x01")));
      assert.equal(await reader.client.next(), notification(again, done));
    }
  });
});

describe("limits of reads", () => {
  it("refuses invalid parameters free of charge, in a batch, and over HTTP", async () => {
    const key = await gateway.issue({});
    await using reader = await connect({}, key);
    const item = (more: object): unknown => [hash, [{ ...items[0], ...more }], null];
    const wrong: [string, unknown][] = [
      [storage, []],
      [storage, ["0x1", items]],
      [storage, [hash, []]],
      [storage, [hash, "0x01"]],
      [storage, item({ key: "zz" })],
      [storage, item({ type: "all" })],
      [storage, item({ paginationStartKey: "0x02" })],
      [storage, [hash, items, 7]],
      [storage, [hash, items, null, null]],
      [storage, [hash, Array.from({ length: 1025 }, () => items[0])]],
      [diff, [hash, [{ key: "0x01" }]]],
      [diff, [hash, [], null]],
      [diff, [hash, null, "x"]],
      ["archive_v1_stopStorage", []],
    ];
    for (const [method, params] of wrong) {
      const { error } = await reader.call(method, params);
      assert.equal(error?.code, -32602, JSON.stringify(params));
    }
    const call = request(storage, JSON.stringify([hash, items, null]));
    assert.match(await reader.client.ask(`[${call}]`), /-32601/);
    const response = await fetch(gateway.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${key.key}`, "content-type": "application/json" },
      body: call,
    });
    assert.match(await response.text(), /-32601/);
    assert.deepEqual(sent(), []);
    assert.equal(await reader.used(), 0);
    const { result } = await reader.call("rpc_methods", []);
    const { methods } = result as { methods: string[] };
    for (const name of [storage, diff, "archive_v1_stopStorage", "archive_v1_stopStorageDiff"]) {
      assert.ok(methods.includes(name), name);
    }
  });

  it("allows four reads per connection, and a number per key that the file sets", async () => {
    for (const node of nodes()) node.events = [];
    const key = await gateway.issue({});
    await using one = await connect({}, key);
    await using two = await connect({}, key);
    const ids: string[] = [];
    for (let n = 0; n < 4; n++) ids.push(await one.begin());
    assert.deepEqual((await one.call(storage, [hash, items, null])).error, {
      code: -32006,
      message: "Too many subscriptions on the connection",
    });
    for (let n = 0; n < 2; n++) await two.begin();
    assert.deepEqual((await two.call(storage, [hash, items, null])).error, {
      code: -32006,
      message: "Too many subscriptions of the key",
    });
    assert.equal((await one.call("archive_v1_stopStorage", [ids[0]])).result, null);
    await two.begin();
    await one[Symbol.asyncDispose]();
    await until(() => reading() === 3);
    await two.begin();
  });

  it("is refused when 32 are open at the nodes", async () => {
    for (const node of nodes()) node.events = [];
    await until(() => reading() === 0);
    await using readers = new AsyncDisposableStack();
    for (let n = 0; n < 8; n++) {
      const reader = readers.use(await connect());
      for (let reads = 0; reads < 4; reads++) await reader.begin();
    }
    const last = readers.use(await connect());
    assert.deepEqual((await last.call(storage, [hash, items, null])).error, {
      code: -32006,
      message: "Too many subscriptions of all clients at the nodes",
    });
  });

  it("makes the node wait while the client does not read, and then delivers everything", async () => {
    const count = 400;
    const text = `0x${"5a".repeat(50_000)}`;
    const events = Array.from({ length: count }, (_, n) => value(`0x${1000 + n}`, text));
    for (const node of nodes()) node.events = [...events, done];
    await using reader = await connect();
    reader.client.socket.pause();
    reader.client.send(request(storage, JSON.stringify([hash, items, null])));
    await until(() => reading() === 0 && first.unreadBytes + second.unreadBytes > 0);
    const used = await reader.used();
    assert.ok(used < 500 + count * 100, "not all events were taken from the node");
    reader.client.socket.resume();
    const id = (JSON.parse(await reader.client.next()) as Answer).result;
    for (const event of events) {
      assert.equal(await reader.client.next(), notification(String(id), event));
    }
    assert.equal(await reader.client.next(), notification(String(id), done));
    assert.equal(await reader.used(), 500 + (count + 1) * 100);
  });
});
