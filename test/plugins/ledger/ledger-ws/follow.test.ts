/** The methods `chainHead_v1_*` through the shipped pipeline, with scripted nodes. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it, test } from "node:test";
import { type TestGateway, type TestKey } from "../../../../plugins/contracts/testing.ts";
import { FollowUpstream } from "../../../../plugins/ledger/ledger-ws/follow-upstream.ts";
import { request } from "../ledger/fixture.ts";
import { FollowNode, hashAt, runtimeOf } from "../ledger/follow/follow-node.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";
import { startShipped, usedBy } from "./shipped-gateway.ts";
import { FollowClient } from "./follow-client.ts";

const stack = new AsyncDisposableStack();
let first: FollowNode;
let second: FollowNode;
let gateway: TestGateway;
const clients: FollowClient[] = [];

before(async () => {
  first = stack.use(await FollowNode.start());
  second = stack.use(await FollowNode.start());
  gateway = await startShipped([first, second], {
    surface: "followsPerKey: 3, operationsPerKey: 20",
  });
  stack.use(gateway);
});
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
});
after(() => stack.disposeAsync());

async function connect(
  limits: { cuLimit24hMilli?: number } = {},
  given?: TestKey,
): Promise<FollowClient> {
  const { key, workspaceId } = given ?? (await gateway.issue(limits));
  const client = await FollowClient.connect(gateway.url, key, () => usedBy(gateway, workspaceId));
  clients.push(client);
  return client;
}

const current = (): FollowNode => (first.follows.size > 0 ? first : second);

const heightOf = (hash: string): number => Number.parseInt(hash.slice(4), 16);

/** Extends the chain of both nodes by one block on the best one. Returns its hash. */
function extend(fork = 0, runtime?: string): string {
  const parent = first.best;
  const hash = hashAt(heightOf(parent) + 1, fork);
  for (const node of [first, second]) node.add(hash, parent, runtime);
  return hash;
}

function finalize(hashes: readonly string[], pruned: readonly string[] = []): void {
  for (const node of [first, second]) node.finalize(hashes, pruned);
}

describe("a follow", () => {
  it("is shared by all clients, and a new one gets the whole tree", async () => {
    const one = await connect();
    const id = await one.follow(true);
    const begun = await one.events(id, 2);
    const last = first.finalized.at(-1);
    assert.equal(
      begun[0],
      `{"event":"initialized","finalizedBlockHashes":${JSON.stringify(first.finalized)},"finalizedBlockRuntime":${runtimeOf(1)}}`,
    );
    assert.equal(begun[1], `{"event":"bestBlockChanged","bestBlockHash":"${last}"}`);
    const block = extend();
    const fork = hashAt(heightOf(block), 1);
    for (const node of [first, second]) node.add(fork, last!, runtimeOf(2));
    const live = await one.events(id, 4);
    assert.equal(
      live[2],
      `{"event":"newBlock","blockHash":"${fork}","parentBlockHash":"${last}","newRuntime":${runtimeOf(2)}}`,
    );

    const others = await Promise.all(Array.from({ length: 10 }, () => connect()));
    for (const other of others) {
      const own = await other.follow(true);
      assert.notEqual(own, id);
      const events = await other.events(own, 4);
      assert.deepEqual(events, [begun[0], live[0], live[2], live[3]]);
    }
    assert.equal(current().follows.size, 1);
    // 1000 to open, and 100 for each of the six events.
    await until(async () => (await one.used()) === 1600);
    finalize([block], [fork]);
    for (const other of others) await other.event("finalized");
    assert.equal(JSON.parse(await one.event("finalized")).prunedBlockHashes[0], fork);
    first.best = second.best = block;
  });

  it("with and without runtime are two at the node, and two are allowed per connection", async () => {
    const client = await connect();
    const withRuntime = await client.follow(true);
    const without = await client.follow(false);
    await client.event("initialized", withRuntime);
    const begun = JSON.parse(await client.event("initialized", without));
    assert.equal("finalizedBlockRuntime" in begun, false);
    assert.equal(current().follows.size, 2);
    assert.match(
      await client.call("follow", [true]),
      /"error":\{"code":-32800,"message":"Too many follows on the connection"\}/,
    );
    assert.equal(await client.ask("unfollow", [without]), "null");
    assert.equal(typeof (await client.follow(false)), "string");
    for (const wrong of [[], ["true"], [true, 1], [null]]) {
      assert.equal(await client.error("follow", wrong), -32602);
    }
  });

  it("is refused above the limit of its key, on whichever connection, until another one has ended", async () => {
    const key = await gateway.issue({});
    const [one, two] = [await connect({}, key), await connect({}, key)];
    const id = await one.follow(true);
    await one.follow(false);
    await two.follow(true);
    assert.match(
      await two.call("follow", [true]),
      /"error":\{"code":-32800,"message":"Too many follows of the key"\}/,
    );
    assert.equal(await one.ask("unfollow", [id]), "null");
    await two.event("initialized", await two.follow(false));
    const other = await connect();
    await other.event("initialized", await other.follow(true));
  });

  it("is free if it is refused, and ends with stop when the credit is used up", async () => {
    const client = await connect({ cuLimit24hMilli: 1250 });
    const id = await client.follow(true);
    await client.events(id, 2);
    finalize([extend()]);
    assert.equal(await client.event("stop", id), '{"event":"stop"}');
    assert.equal(await client.used(), 1200);
    assert.equal(await client.error("follow", [true]), -32005);
    assert.equal(await client.ask("unfollow", [id]), "null");
    assert.equal(await client.ask("header", [id, first.best]), "null");
    assert.equal(await client.ask("body", [id, first.best]), '{"result":"limitReached"}');
  });

  it("ends at the node soon after the last client has left", async () => {
    await until(() => first.follows.size + second.follows.size === 0);
  });
});

describe("pinned blocks", () => {
  it("are unpinned at the node when no client needs them any more", async () => {
    const [one, two] = [await connect(), await connect()];
    const ids = [await one.follow(true), await two.follow(true)] as const;
    const block = extend();
    const fork = hashAt(heightOf(block), 2);
    for (const node of [first, second]) node.add(fork, node.finalized.at(-1)!);
    for (const client of [one, two]) while (!(await client.event("newBlock")).includes(fork));
    for (const node of [first, second]) node.best = block;
    assert.equal(await one.error("unpin", [ids[0], hashAt(7)]), -32801);
    assert.equal(await one.error("unpin", [ids[0], [fork, fork]]), -32804);
    assert.equal(await one.error("unpin", [ids[0], [fork, hashAt(7)]]), -32801);
    assert.equal(await one.error("unpin", [ids[0], ["fork"]]), -32602);
    assert.equal(await one.ask("unpin", [ids[0], [fork]]), "null");
    assert.equal(await one.error("unpin", [ids[0], [fork]]), -32801);
    assert.equal(await one.error("header", [ids[0], fork]), -32801);
    assert.equal(await one.error("body", [ids[0], fork]), -32801);
    assert.match(await two.ask("header", [ids[1], fork]), /^"0x/);
    finalize([block], [fork]);
    for (const client of [one, two]) await client.event("finalized");
    assert.equal(current().pinned.includes(fork), true, "the second client holds it");
    assert.equal(await two.ask("unpin", [ids[1], fork]), "null");
    await until(() => !current().pinned.includes(fork));
    assert.equal(current().pinned.includes(block), true);
  });

  it("that one client keeps for too long stop this client only", async () => {
    const [tidy, hoarder] = [await connect(), await connect()];
    const ids = [await tidy.follow(true), await hoarder.follow(true)] as const;
    await hoarder.event("initialized");
    const begun = JSON.parse(await tidy.event("initialized"));
    assert.equal(await tidy.ask("unpin", [ids[0], begun.finalizedBlockHashes]), "null");
    for (let round = 0; round < 7; round++) {
      const blocks = Array.from({ length: 20 }, () => {
        const block = extend();
        finalize([block]);
        return block;
      });
      while (!(await tidy.event("finalized")).includes(blocks.at(-1)!));
      assert.equal(await tidy.ask("unpin", [ids[0], blocks]), "null");
    }
    await hoarder.event("stop", ids[1]);
    assert.equal(await tidy.error("header", [ids[0], hashAt(7)]), -32801, "it still follows");
    assert.equal(await tidy.count("stop"), 0);
    await until(() => current().pinned.length < 40);
    await hoarder.event("initialized", await hoarder.follow(true));
  });
});

describe("operations", () => {
  it("have their own ids, share one at the node, are cached, and are charged exactly", async () => {
    const [one, two] = [await connect(), await connect()];
    const ids = [await one.follow(true), await two.follow(true)] as const;
    await one.events(ids[0], 2);
    await two.events(ids[1], 2);
    const hash = first.best;
    const asked = current().calls.length;
    current().isHolding = true;
    const started = [
      await one.start("call", [ids[0], hash, "Core_version", "0x01"]),
      await two.start("call", [ids[1], hash, "Core_version", "0x01"]),
    ] as const;
    assert.notEqual(started[0], started[1]);
    current().release();
    for (const [at, client] of [one, two].entries()) {
      const event = await client.event("operationCallDone");
      assert.equal(
        event,
        `{"event":"operationCallDone","operationId":"${started[at]}","output":"0x01ff"}`,
      );
    }
    const again = await two.start("call", [ids[1], hash, "Core_version", "0x01"]);
    assert.match(await two.event("operationCallDone"), new RegExp(again));
    assert.equal(current().calls.length, asked + 1);
    assert.equal(await one.used(), 1200 + 5000);
    assert.equal(await two.used(), 1200 + 10_000);
    const body = await one.start("body", [ids[0], hash]);
    assert.equal(
      await one.event("operationBodyDone"),
      `{"event":"operationBodyDone","operationId":"${body}","value":["0x01", "0x02"]}`,
    );
    assert.match(await one.ask("header", [ids[0], hash]), /^"0xab/);
    assert.match(await two.ask("header", [ids[1], hash]), /^"0xab/);
    assert.equal(current().count("header"), 2, "one of another test");
    assert.equal(await one.used(), 1200 + 5000 + 1000 + 200);
  });

  it("of storage are split into items, and limited to sixteen per follow", async () => {
    const client = await connect();
    const id = await client.follow(true);
    await client.events(id, 2);
    const hash = first.best;
    const items = [
      { key: "0x01", type: "value" },
      { key: "0xee", type: "hash" },
    ];
    const operation = await client.start("storage", { followSubscription: id, hash, items });
    assert.equal(
      await client.event("operationStorageItems"),
      `{"event":"operationStorageItems","operationId":"${operation}","items":[{"key":"0x01","value":"0x2a"}]}`,
    );
    await client.event("operationStorageDone");
    assert.equal(await client.used(), 1200 + 1000);
    current().isHolding = true;
    const many = Array.from({ length: 20 }, (_, n) => ({ key: `0x77${10 + n}`, type: "value" }));
    const answer = JSON.parse(await client.ask("storage", [id, hash, many, null]));
    assert.equal(answer.discardedItems, 4);
    assert.equal(await client.ask("body", [id, hash]), '{"result":"limitReached"}');
    current().release();
    await client.event("operationStorageDone");
    assert.equal(await client.used(), 1200 + 1000 + 8000);
    for (const wrong of [[], [{ key: "0x1", type: "value" }], [{ key: "0x01", type: "x" }], "x"]) {
      assert.equal(await client.error("storage", [id, hash, wrong, null]), -32602);
    }
  });

  it("are limited per key on all its connections, and a client that leaves frees its quota", async () => {
    const key = await gateway.issue({});
    const [one, two] = [await connect({}, key), await connect({}, key)];
    const ids = [await one.follow(true), await two.follow(true)] as const;
    await one.event("initialized");
    await two.event("initialized");
    const hash = first.best;
    current().isHolding = true;
    const items = (from: number, count: number): object =>
      Array.from({ length: count }, (_, n) => ({ key: `0x66${from + n}`, type: "value" }));
    await one.start("storage", [ids[0], hash, items(10, 15), null]);
    const answer = JSON.parse(await two.ask("storage", [ids[1], hash, items(30, 8), null]));
    assert.equal(answer.discardedItems, 3);
    assert.equal(await two.ask("body", [ids[1], hash]), '{"result":"limitReached"}');
    await one.close();
    await until(async () => {
      const { result } = JSON.parse(await two.ask("body", [ids[1], hash]));
      return result === "started";
    });
    current().release();
    await two.event("operationStorageDone");
    const other = await connect();
    await other.event("initialized", await other.follow(true));
  });

  it("that the node ends with an error are charged, and inaccessible ones are free", async () => {
    const client = await connect();
    const id = await client.follow(true);
    await client.events(id, 2);
    const operation = await client.start("call", [id, first.best, "Broken_call", ""]);
    assert.equal(
      await client.event("operationError"),
      `{"event":"operationError","operationId":"${operation}","error":"it is broken"}`,
    );
    assert.equal(await client.used(), 1200 + 5000);
    await client.start("call", [id, first.best, "Lost_call", "0x"]);
    await client.event("operationInaccessible");
    assert.equal(await client.used(), 1200 + 5000);
    const without = await client.follow(false);
    await client.event("initialized", without);
    assert.equal(await client.error("call", [without, first.best, "Core_version", "0x"]), -32802);
  });

  it("that are stopped send nothing more, are stopped at the node, and cost what the node has begun", async () => {
    const client = await connect();
    const id = await client.follow(true);
    await client.events(id, 2);
    current().isHolding = true;
    const operation = await client.start("call", [id, first.best, "Slow_call", "0x"]);
    await until(
      () =>
        current().count("call") > 0 && current().calls.some((call) => call.includes("Slow_call")),
    );
    const stops = current().count("stopOperation");
    assert.equal(await client.ask("stopOperation", [id, operation]), "null");
    await until(() => current().count("stopOperation") === stops + 1);
    current().release();
    assert.equal(await client.ask("stopOperation", [id, operation]), "null");
    await until(async () => (await client.used()) === 1200 + 5000);
    assert.equal(await client.count("operationCallDone"), 0);
  });

  it("on descendants continue at the node while the client reads, and give all pages", async () => {
    const client = await connect();
    const id = await client.follow(true);
    await client.events(id, 2);
    const items = [{ key: "0xdd", type: "descendantsValues" }];
    for (const source of ["node", "cache"]) {
      const operation = await client.start("storage", [id, first.best, items, null]);
      for (const page of [1, 2, 3]) {
        const event = JSON.parse(await client.event("operationStorageItems"));
        assert.deepEqual(event.items, [{ key: `0xdd0${page}`, value: `0x0${page}` }], source);
      }
      await client.event("operationStorageDone");
      assert.equal(await client.ask("continue", [id, operation]), "null", "it has ended");
    }
    assert.equal(current().count("continue"), 2);
    current().isHolding = true;
    const operation = await client.start("call", [id, first.best, "Other_call", "0x"]);
    assert.equal(await client.error("continue", [id, operation]), -32803);
    current().release();
  });

  it("cannot be in a batch, and need a WebSocket", async () => {
    const client = await connect();
    const batch = await client.raw(`[${request("chainHead_v1_follow", "[true]")}]`);
    assert.match(batch, /-32601/);
    const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: request("chainHead_v1_follow", "[true]"),
    });
    assert.match(await response.text(), /-32601/);
    const methods = await client.raw(request("rpc_methods"));
    for (const name of ["follow", "storage", "stopOperation", "unpin"]) {
      assert.match(methods, new RegExp(`"chainHead_v1_${name}"`));
    }
  });
});

describe("a client that follows the guide of the specification", () => {
  it("above its rate limit gets the error -32029, and not one of an unknown method", async () => {
    const { key } = await gateway.issue({ plan: "free" });
    const client = await FollowClient.connect(gateway.url, key, () => Promise.resolve(0));
    clients.push(client);
    const codes: unknown[] = [];
    for (let n = 0; n < 12; n++) {
      const answer = JSON.parse(await client.call("unfollow", ["x"]));
      codes.push(answer.error?.code);
    }
    assert.ok(codes.includes(-32029), JSON.stringify(codes));
    assert.ok(
      codes.every((code) => code === undefined || code === -32029),
      JSON.stringify(codes),
    );
  });
});

describe("the loss of the node", () => {
  it("stops all clients, and the next follow works at once on another node", async () => {
    const all = [await connect(), await connect()];
    const ids = await Promise.all(all.map((client) => client.follow(true)));
    for (const client of all) await client.event("initialized");
    await untilNodesUp(gateway, 2);
    const lost = current();
    lost.isHolding = true;
    await all[0]!.start("call", [ids[0], lost.best, "Slow_call", "0x02"]);
    lost.cut();
    await all[0]!.event("operationInaccessible");
    for (const client of all) await client.event("stop");
    for (const client of all) await client.event("initialized", await client.follow(true));
    assert.notEqual(current(), lost);
    lost.isHolding = false;
    await until(async () => (await all[1]!.used()) === 2 * 1000 + 4 * 100);
  });

  it("is assumed after a stop, an event that breaks the protocol, and a flood", async () => {
    const client = await connect();
    const attacks: ((node: FollowNode) => void)[] = [
      (node) => node.notifyAll('{"event":"stop"}'),
      (node) =>
        node.notifyAll(
          `{"event":"newBlock","blockHash":"${hashAt(3)}","parentBlockHash":"${hashAt(2)}"}`,
        ),
      (node) => {
        for (let n = 0; n < 30_000; n++) node.notifyAll('{"event":"unknown"}');
      },
    ];
    for (const attack of attacks) {
      const id = await client.follow(true);
      await client.event("initialized", id);
      const node = current();
      attack(node);
      await client.event("stop", id);
    }
    await client.event("initialized", await client.follow(true));
  });
});

describe("a client that does not read", () => {
  it("is closed with 1013 when 4 MiB wait for it, and the others continue", async () => {
    const [slow, other] = [await connect(), await connect()];
    await slow.event("initialized", await slow.follow(true));
    const id = await other.follow(true);
    await other.event("initialized", id);
    slow.pause();
    const large = `{"type":"valid","spec":{"specName":"${"x".repeat(500_000)}"}}`;
    // The connection holds a few megabytes until the gateway notices.
    while (current().follows.size > 0 && (await followClients()) === 2) {
      const block = extend(0, large);
      assert.ok((await other.event("newBlock", id)).includes(block));
      finalize([block]);
      assert.equal(await other.ask("unpin", [id, block]), "null");
    }
    slow.resume();
    assert.equal(await slow.closed, 1013);
    const block = extend();
    assert.ok((await other.event("newBlock", id)).includes(block));
    finalize([block]);
    assert.equal(await other.count("stop"), 0);
  });
});

async function followClients(): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Number(/^sluice_ledger_follow_clients\{.*\} (\d+)$/m.exec(text)?.[1]);
}

describe("a node that lags", () => {
  it("is left: its follows get stop, and the next ones use a node that does not lag", async () => {
    await using ahead = await FollowNode.start();
    await using behind = await FollowNode.start();
    await using own = await startShipped([behind, ahead]);
    const client = await FollowClient.connect(own.url, own.key, () => Promise.resolve(0));
    clients.push(client);
    const id = await client.follow(true);
    await client.event("initialized", id);
    assert.equal(behind.follows.size, 1, "equal nodes are used in the order of the file");
    ahead.bestNumber = 120;
    await client.event("stop", id);
    await client.event("initialized", await client.follow(true));
    assert.deepEqual([behind.follows.size, ahead.follows.size], [0, 1]);
  });
});

describe("a gateway that stops", () => {
  it("sends stop to the follows, and closes with 1001", async () => {
    const own = await startShipped([first]);
    const client = await FollowClient.connect(own.url, own.key, () => Promise.resolve(0));
    const id = await client.follow(true);
    await client.event("initialized", id);
    const stopped = own[Symbol.asyncDispose]();
    await client.event("stop", id);
    assert.equal(await client.closed, 1001);
    await stopped;
  });
});

test("an operation with a part for which the queue at the node is full is refused, and not charged", async () => {
  const ends: string[] = [];
  const settle = (): Promise<boolean> => Promise.resolve(ends.push("charged") > 0);
  const payment = { settle, release: () => void ends.push("released") };
  const operation = { resume() {}, stop: () => ends.push("stopped") > 0 };
  let parts = 0;
  // The members that an operation uses.
  const follow = { operate: () => (parts++ === 0 ? operation : undefined) } as never;
  const upstream = new FollowUpstream(follow, true, {
    payer: { reserve: () => Promise.resolve(payment) } as never,
    quota: { take: (wanted = 1) => wanted, release() {} },
    isBusy: () => false,
    hold: () => true,
    onCharge() {},
  });
  const items = ["0x01", "0x02"].map(
    (key) => ({ kind: "storage", hash: hashAt(100), childTrie: null, key, type: "value" }) as const,
  );
  const method = { name: "chainHead_v1_storage", cuMilli: 500 };
  assert.equal(await upstream.operate(method, items, () => {}), undefined);
  assert.deepEqual(ends, ["stopped", "released"]);
});
