/** Which nodes the plugin `ledger` uses: what it learns from probes and calls, and what it reports about the nodes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  PROBE_MS,
  type ChainNode,
  startChainNode,
  startPool,
  until,
  type PoolUnderTest,
} from "./nodes.ts";
import {
  echo,
  failure,
  onChain,
  response,
  startNode,
  type Chain,
  createChain,
} from "./scripted-node.ts";

async function isCached(under: PoolUnderTest, method: string, params?: string): Promise<boolean> {
  await under.call(method, params);
  return !(under.call(method, params) instanceof Promise);
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Returns true if the block counts as finalized, so that its hash is cached. */
const isFinalized = (under: PoolUnderTest, block: number): Promise<boolean> =>
  isCached(under, "chain_getBlockHash", `[${block}]`);
const caching = { cacheBytes: 100_000 };

const ejections: readonly [
  name: string,
  complaint: string,
  sick: Partial<Chain>,
  well: Partial<Chain>,
][] = [
  ["is syncing", "syncing", { syncing: true }, { syncing: false }],
  ["has lost its peers", "no_peers", { peers: 0 }, { peers: 1 }],
  ["lags", "lagging", { best: 89 }, { best: 90 }],
];
for (const [name, complaint, sick, well] of ejections) {
  test(`a node that ${name} is left out until it is healthy again`, async () => {
    await using a = await startChainNode("a");
    await using b = await startChainNode("b", sick);
    await using under = await startPool([a.url, b.url]);
    await under.probed;
    assert.deepEqual(under.exclusionReasons(), [undefined, complaint]);
    for (let i = 0; i < 4; i++) assert.equal(await under.outcome(), '"a"');
    Object.assign(b.chain, well);
    await under.probes(() => under.exclusionReasons()[1] === undefined);
    const answers = [await under.outcome(), await under.outcome()];
    assert.deepEqual(answers.toSorted(), ['"a"', '"b"']);
    const of = `upstream="ledger",node="127.0.0.1:${b.port}"`;
    assert.equal(under.value(`sluice_ledger_node_ejections_total{${of},reason="${complaint}"}`), 1);
    assert.equal(under.value(`sluice_ledger_node_up{${of}}`), 1);
    assert.deepEqual(
      under.lines
        .filter(({ fields }) => fields.node === `127.0.0.1:${b.port}`)
        .map(({ level, message }) => [level, message]),
      [
        ["warn", "node is not used"],
        ["info", "node is used"],
      ],
    );
  });
}

test("a node that should have no peers, writes padded numbers, and sends errors without a code is healthy", async () => {
  const chain = createChain({ peers: 0, shouldHavePeers: false });
  const answers: Record<string, string> = {
    chain_getHeader: '{"number":"0x00000007"}',
    chain_getFinalizedHead: '"0x01"',
  };
  await using node = await startNode((received) => {
    const { id, method } = received.call();
    const text = answers[method];
    if (method === "system_version") {
      received.socket.write(response(failure(id, { message: "no such method" })));
    } else if (text === undefined) {
      onChain(chain)(received);
    } else {
      received.socket.write(response(`{"id":${id},"result":${text}}`));
    }
  });
  await using under = await startPool([node.url]);
  await under.probed;
  assert.deepEqual(under.exclusionReasons(), [undefined]);
  assert.deepEqual([under.nodes()[0]?.best, under.nodes()[0]?.finalized], [7, 7]);
});

test("a node that serves neither health nor finality is healthy as long as it has a head", async () => {
  const chain = createChain();
  await using node = await startNode((received) => {
    const { id, method } = received.call();
    if (method === "chain_getHeader" || method === "chain_getBlockHash") onChain(chain)(received);
    else
      received.socket.write(response(failure(id, { code: -32601, message: "Method not found" })));
  });
  await using under = await startPool([node.url]);
  await under.probed;
  const [{ best, finalized } = assert.fail()] = under.nodes();
  assert.deepEqual([under.ready, best, finalized], [true, 100, undefined]);
});

const nonsense: readonly [name: string, method: string, text: string][] = [
  ["no header", "chain_getHeader", "null"],
  ["a header without a number", "chain_getHeader", "{}"],
  ["an invalid block number", "chain_getHeader", '{"number":"0xzz"}'],
  ["a number beyond measure", "chain_getHeader", '{"number":"0xffffffffffffffff"}'],
  ["a negative number", "chain_getHeader", '{"number":-1}'],
  ["no genesis", "chain_getBlockHash", "null"],
  ["a genesis that is not a hash", "chain_getBlockHash", '"secret text of a node"'],
];
for (const [name, method, text] of nonsense) {
  test(`a node that answers a probe with ${name} is not usable`, async () => {
    const chain = createChain();
    await using node = await startNode((received) => {
      const call = received.call();
      if (call.method !== method) onChain(chain)(received);
      else received.socket.write(response(`{"id":${call.id},"result":${text}}`));
    });
    await using under = await startPool([node.url]);
    await under.probed;
    assert.deepEqual(under.exclusionReasons(), ["bad_answer"]);
    assert.equal(under.ready, false);
    // Finding D8: the node was reported as unreachable and as left out, although it was reached and still used.
    const [line, ...others] = under.lines;
    assert.equal(others.length, 0);
    assert.equal(line?.message, "node has a fault but is still used, because no node is usable");
    assert.deepEqual([line.fields.reason, line.fields.error], ["bad_answer", undefined]);
    assert.match(String(line.fields.detail), new RegExp(`^${method}: `));
    assert.ok(!JSON.stringify(line.fields).includes(text));
  });
}

const badAnswers: readonly [name: string, answer: string, detail: string][] = [
  ["a web page", response("<html>secret</html>"), "system_health: not a JSON-RPC answer"],
  [
    "an HTTP error",
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 6\r\n\r\nsecret",
    "system_health: status 503",
  ],
];
for (const [name, answer, detail] of badAnswers) {
  test(`a node that answers a probe with ${name} is left out because of its bad answer`, async () => {
    await using a = await startChainNode("a");
    await using b = await startNode((received) => void received.socket.write(answer));
    await using under = await startPool([a.url, b.url]);
    await under.probed;
    assert.deepEqual(under.exclusionReasons(), [undefined, "bad_answer"]);
    const line = under.lines.find(({ fields }) => fields.node === `127.0.0.1:${b.port}`);
    assert.equal(line?.message, "node is not used");
    assert.deepEqual([line.fields.reason, line.fields.detail], ["bad_answer", detail]);
    assert.ok(!JSON.stringify(under.lines).includes("secret"));
  });
}

test("a node of another chain than the first node's is never used, even if the others fail", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { genesis: "0x00bb", best: 1_000_000 });
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  assert.deepEqual(under.exclusionReasons(), [undefined, "other_chain"]);
  for (let i = 0; i < 4; i++) assert.equal(await under.outcome(), '"a"');
  const fatal = under.lines.filter(({ level }) => level === "error");
  assert.equal(fatal.length, 1);
  assert.equal(fatal[0]?.fields.genesis, "0x00bb");
  await a.close();
  await under.probes(() => under.exclusionReasons()[0] === "unreachable");
  assert.equal(under.ready, false);
  assert.equal(await under.outcome(), "unreachable");
  assert.equal(b.asked.length, 0);
});

test("the age of a head matters only if a limit is set", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using free = await startPool([a.url, b.url]);
  await using bound = await startPool([a.url, b.url], { maxHeadAge: "12s" });
  await Promise.all([free.probed, bound.probed]);
  for (let round = 0; round < 3; round++) {
    a.chain.best++;
    const seen = a.chain.best;
    await free.probes(() => free.nodes()[0]?.best === seen);
    await bound.probes(() => bound.nodes()[0]?.best === seen);
  }
  await until(() => bound.exclusionReasons()[1] !== undefined);
  assert.deepEqual(bound.exclusionReasons(), [undefined, "stale_head"]);
  assert.deepEqual(free.exclusionReasons(), [undefined, undefined]);
  b.chain.best += 3;
  await bound.probes(() => bound.exclusionReasons()[1] === undefined);
});

test("a node whose finalized block goes back is left out until it has caught up", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url], caching);
  await under.probed;
  assert.ok(await isCached(under, "system_chain"));
  for (const [best, finalized, reason] of [
    [101, 90, "finalized_backwards"],
    [102, 97, "finalized_backwards"],
    [103, 98, undefined],
  ] as const) {
    Object.assign(b.chain, { best, finalized });
    await under.probesShow(100, best);
    assert.deepEqual(under.exclusionReasons(), [undefined, reason]);
    assert.ok(await isFinalized(under, 98), "the node does not count");
  }
  assert.ok(!(under.call("system_chain") instanceof Promise), "the cache was not emptied");
});

test("a node that is distrusted is left for 10 minutes, then for 20, and good answers do not end that", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  const [first, second] = under.ledger.nodes;
  for (const minutes of [10, 20]) {
    second!.distrust();
    assert.deepEqual(under.exclusionReasons(), [undefined, "wrong_proof"]);
    assert.equal((await second!.call("system_chain", "[]")).kind, "result");
    under.clock.advance(minutes * 60_000 - 2 * PROBE_MS);
    await turn();
    b.chain.best++;
    under.clock.advance(PROBE_MS);
    await until(() => under.nodes()[1]?.best === b.chain.best);
    under.clock.advance(PROBE_MS - 1);
    assert.deepEqual(under.exclusionReasons(), [undefined, "wrong_proof"]);
    under.clock.advance(1);
    await until(() => under.exclusionReasons()[1] === undefined);
  }
  second!.distrust();
  first!.distrust();
  assert.equal(typeof (await under.outcome()), "string", "they are used if there is no other");
});

test("a restarted chain is accepted after some probes, and the cache is emptied", async () => {
  await using node = await startChainNode("a");
  await using under = await startPool([node.url], caching);
  await under.probed;
  assert.ok(await isCached(under, "system_chain"));
  for (const [best, finalized] of [
    [3, 1],
    [4, 1],
    [5, 2],
  ] as const) {
    Object.assign(node.chain, { best, finalized });
    await under.probesShow(best);
    assert.deepEqual(under.exclusionReasons(), ["finalized_backwards"]);
    assert.equal(await under.outcome(), '"a"', "the only node is used all the same");
  }
  assert.ok(!(under.call("system_chain") instanceof Promise));
  await under.probes(() => under.exclusionReasons()[0] === undefined);
  assert.ok(under.call("system_chain") instanceof Promise);
  assert.deepEqual([await isFinalized(under, 2), await isFinalized(under, 3)], [true, false]);
});

test("the chain has started again when it has at every node", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  for (const node of [a, b]) {
    node.calls = ({ socket, call }) =>
      void socket.write(response(`{"id":${call().id},"result":${node.chain.finalized}}`));
  }
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  const restart = async ({ chain }: ChainNode): Promise<void> => {
    chain.finalized = 3;
    for (let probe = 0; probe < 4; probe++) {
      chain.best++;
      await under.probesShow(a.chain.best, b.chain.best);
    }
  };
  const height = "archive_v1_finalizedHeight";
  assert.equal(await under.outcome(height), "98");
  await restart(a);
  b.chain.syncing = true;
  await under.probes(() => under.exclusionReasons()[1] === "syncing");
  assert.equal(await under.outcomeInTime(height), "unreachable", "block 3 is too old");
  b.chain.syncing = false;
  await restart(b);
  assert.equal(await under.outcomeInTime(height), "3");
});

test("finalized is the block that every usable node has, or unknown without one", async () => {
  await using a = await startChainNode("a", { best: 105, finalized: 103 });
  await using b = await startChainNode("b", { best: 101, finalized: 99 });
  await using under = await startPool([a.url, b.url], caching);
  await under.probed;
  assert.deepEqual([await isFinalized(under, 99), await isFinalized(under, 100)], [true, false]);
  await b.close();
  await under.probes(() => under.exclusionReasons()[1] === "unreachable");
  assert.deepEqual([await isFinalized(under, 103), await isFinalized(under, 104)], [true, false]);
  a.chain.syncing = true;
  await under.probes(() => under.exclusionReasons()[0] === "syncing");
  assert.equal(await isFinalized(under, 101), false);
});

test("the cache is emptied when genesis, software or runtime change, but not with nodes that come, go or lag", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { version: "2.0.0", specVersion: 7 });
  await using under = await startPool([a.url, b.url], caching);
  await under.probed;
  const isEmptied = (): boolean => under.call("system_chain") instanceof Promise;
  assert.ok(await isCached(under, "system_chain"));
  const { port } = b;
  b.chain.best = 50;
  await under.probes(() => under.exclusionReasons()[1] === "lagging");
  await b.close();
  await under.probes(() => under.exclusionReasons()[1] === "unreachable");
  await using again = await startNode(onChain(b.chain), { port });
  await under.probes(() => under.exclusionReasons()[1] === "lagging");
  assert.ok(again.received.length > 0);
  assert.ok(!isEmptied());
  for (const change of [{ specVersion: 2 }, { version: "1.0.1" }, { genesis: "0x00cc" }]) {
    assert.ok(await isCached(under, "system_chain"));
    Object.assign(a.chain, change);
    await under.probes(isEmptied);
  }
});

test("a node that is down is left out, and used again after the next probe", async () => {
  await using a = await startChainNode("a");
  const b = await startChainNode("b");
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  await b.close();
  for (let i = 0; i < 4; i++) assert.equal(await under.outcome(), '"a"');
  await under.probes(() => under.exclusionReasons()[1] === "unreachable");
  const left = under.lines.find(({ fields }) => fields.reason === "unreachable");
  assert.match(String(left?.fields.detail), /no connection \(ECONNREFUSED\)/);
  await using _back = await startNode(onChain(b.chain), { port: b.port });
  await under.probes(() => under.exclusionReasons()[1] === undefined);
});

test("if no node is usable, nodes that lag are preferred and unreachable ones are last", async () => {
  const a = await startChainNode("a");
  await using b = await startChainNode("b", { syncing: true });
  await using c = await startChainNode("c", { peers: 0 });
  await using under = await startPool([a.url, b.url, c.url]);
  await under.probed;
  await a.close();
  await under.probes(() => under.exclusionReasons()[0] === "unreachable");
  assert.deepEqual(under.exclusionReasons(), ["unreachable", "syncing", "no_peers"]);
  assert.equal(under.ready, false);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"c"');
  await c.close();
  await under.probes(() => under.exclusionReasons()[2] === "unreachable");
  assert.equal(await under.outcome(), '"b"');
  await b.close();
  await under.probes(() => under.exclusionReasons()[1] === "unreachable");
  assert.equal(await under.outcome(), "unreachable");
});

test("a single node that was unreachable is used again at once, before any probe", async () => {
  const node = await startChainNode("a");
  await using under = await startPool([node.url]);
  await under.probed;
  await node.close();
  for (let i = 0; i < 20; i++) assert.equal(await under.outcome(), "unreachable");
  await using _back = await startNode(echo, { port: node.port });
  assert.equal(await under.outcome("system_name"), '"system_name"');
});

test("consecutive failed calls eject a node that answers probes, and a probe readmits it", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b");
  await using under = await startPool([a.url, b.url], { probeMs: 600_000 });
  await under.probed;
  b.calls = ({ socket }) => void socket.write(response("", "HTTP/1.1 503 No"));
  await until(() => true);
  for (let i = 0; i < 20; i++) assert.equal(await under.outcome(), '"a"');
  assert.deepEqual(under.exclusionReasons(), [undefined, "tripped"]);
  assert.equal(b.asked.length, 5);
  const probes = b.received.length;
  under.clock.advance(900);
  assert.equal(b.received.length, probes, "it sits out its time");
  under.clock.advance(400);
  await until(() => under.exclusionReasons()[1] === undefined);
  // The node still fails, so its next cooldown is longer.
  for (let i = 0; i < 20; i++) assert.equal(await under.outcome(), '"a"');
  assert.deepEqual(under.exclusionReasons(), [undefined, "tripped"]);
  assert.equal(b.asked.length, 10);
  under.clock.advance(1_900);
  assert.deepEqual(under.exclusionReasons(), [undefined, "tripped"]);
  under.clock.advance(700);
  await until(() => under.exclusionReasons()[1] === undefined);
});

test("the last usable node is never ejected by failing calls", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { syncing: true });
  a.calls = ({ socket }) => void socket.write(response("", "HTTP/1.1 503 No"));
  await using under = await startPool([a.url, b.url]);
  await under.probed;
  for (let i = 0; i < 30; i++) assert.equal(await under.outcome(), "unreachable");
  assert.deepEqual(under.exclusionReasons(), [undefined, "syncing"]);
  assert.equal(under.ready, true);
  assert.equal(a.asked.length, 30);
});

test("a single node that is merely slow is not left out: slow probes do not count while it answers calls", async () => {
  await using node = await startChainNode("a");
  await using under = await startPool([node.url]);
  await under.probed;
  const answering = node.script;
  let hanging = 0;
  node.script = (received) => {
    if (received.call().method === "system_health") hanging++;
    else answering(received);
  };
  under.clock.advance(PROBE_MS);
  for (let round = 1; round <= 6; round++) {
    await until(() => hanging === round);
    assert.equal(await under.outcome(), '"a"');
    // Advances past the time limit of the probe, then to the next one.
    under.clock.advance(PROBE_MS - 1_500);
    await turn();
    assert.equal(under.ready, true);
    under.clock.advance(1_500);
  }
});

// Finding O11: probes had the time limit of calls, so that half of the calls took 30 s for more than a minute.
for (const [others, count] of [
  ["alone", 0],
  ["next to a good one", 1],
] as const) {
  test(`a node ${others} that stops to answer is left out although the time limit of calls is long`, async () => {
    await using node = await startChainNode("a");
    await using good = await startChainNode("b");
    await using under = await startPool([node.url, good.url].slice(0, 1 + count), {
      headersMs: 600_000,
      idleMs: 600_000,
    });
    await under.probed;
    // The next probes begin 3 s before the end of a round.
    under.clock.advance(3_000);
    let hanging = 0;
    node.script = () => void hanging++;
    for (let round = 1; round <= 3; round++) {
      under.clock.advance(PROBE_MS - 3_000);
      await until(() => hanging === round);
      under.clock.advance(3_000);
      await turn();
    }
    assert.equal(under.exclusionReasons()[0], "unreachable");
  });
}

test("a node that is too busy for a probe remains usable for a while", async () => {
  await using node = await startChainNode("a");
  await using under = await startPool([node.url]);
  await under.probed;
  const wasReady: boolean[] = [];
  node.script = (received) => {
    wasReady.push(under.ready);
    received.socket.write(response(failure(received.call().id, { code: -32009, message: "busy" })));
  };
  await under.probes(() => !under.ready);
  assert.deepEqual(wasReady, [true, true, true]);
});

test("probes do not wait behind calls", async () => {
  await using node = await startChainNode("a");
  await using under = await startPool([node.url], { connections: 2 });
  await under.probed;
  node.calls = () => {};
  for (let i = 0; i < 50; i++) void under.outcome();
  node.chain.best = 123;
  under.clock.advance(500);
  await until(() => node.asked.length === 1);
  await under.probes(() => under.nodes()[0]?.best === 123);
});

test("a node whose chain is unknown is not called, even if the others have faults", async () => {
  await using a = await startChainNode("a", { syncing: true });
  await using b = await startChainNode("b");
  const { script } = b;
  b.script = (received) => {
    if (received.call().method !== "system_health") script(received);
  };
  await using under = await startPool([a.url, b.url]);
  await until(() => under.nodes()[0]?.best !== undefined);
  assert.deepEqual(under.exclusionReasons(), ["syncing", "unprobed"]);
  for (let i = 0; i < 3; i++) assert.equal(await under.outcome(), '"a"');
  await a.close();
  under.clock.advance(PROBE_MS);
  await until(() => under.exclusionReasons()[0] === "unreachable");
  assert.equal(await under.outcome(), "unreachable");
  assert.equal(b.asked.length, 0);
});

test("the first node of the configuration defines the chain, even if it answers last", async () => {
  await using a = await startChainNode("a");
  await using b = await startChainNode("b", { genesis: "0x00bb" });
  await a.close();
  await using under = await startPool([a.url, b.url], caching);
  await under.probed;
  assert.deepEqual(under.exclusionReasons(), ["unreachable", undefined]);
  assert.ok(await isCached(under, "system_chain"));
  await using _back = await startNode(onChain(a.chain), { port: a.port });
  await under.probes(() => under.exclusionReasons()[0] === undefined);
  assert.deepEqual(under.exclusionReasons(), [undefined, "other_chain"]);
  assert.ok(under.call("system_chain") instanceof Promise);
});
