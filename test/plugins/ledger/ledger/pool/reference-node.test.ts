/** The reference node of a pool, from which the finalized head comes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, startBlockNode, type BlockNode } from "./block-node.ts";
import { PROBE_MS, startPool, until, type PoolUnderTest } from "./nodes.ts";

const finalizedHead = { method: "chain_getFinalizedHead", params: "[]" };
const finalizedHeight = { method: "archive_v1_finalizedHeight", params: "[]" };
const quoted = (number: number, fork = 0): string => `"${hashOf(number, fork)}"`;

async function read(under: PoolUnderTest, times = 4): Promise<readonly string[]> {
  const answers: string[] = [];
  for (let i = 0; i < times; i++) answers.push(await under.outcome(finalizedHead));
  return answers;
}

/** Reads the finalized head while time passes. */
async function readInTime(under: PoolUnderTest): Promise<string> {
  const call = under.send(finalizedHead);
  while (call.endings === 0) {
    under.clock.advance(100);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const ending = await call.ending;
  return ending.kind === "failed" ? ending.reason : ending.text;
}

/** Announces a finalized head of the reference, as a subscription does. */
function announce({ pool }: PoolUnderTest, number: number, hash = hashOf(number)): void {
  pool.reference.announced(pool.reference.target!.label, number, { number, hash });
}

const label = ({ port }: BlockNode): string => `127.0.0.1:${port}`;
const reference = ({ pool }: PoolUnderTest): string | undefined => pool.reference.target?.label;

async function started(...nodes: readonly BlockNode[]): Promise<PoolUnderTest> {
  const under = startPool(nodes.map(({ url }) => url));
  await under.pool.firstProbe;
  return under;
}

/** Advances the clock by one round of probes, `rounds` times. */
async function probeRounds(under: PoolUnderTest, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    under.clock.advance(PROBE_MS);
    await under.pool.probe();
  }
}

test("the finalized head comes from one node, and does not go back when this node is lost", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await started(ahead, behind);
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
  assert.equal(await under.outcome(finalizedHeight), "99");
  await ahead.close();
  // The other node has not finalized the block within two seconds.
  assert.equal(await readInTime(under), "unreachable");
  behind.finalized = 99;
  assert.equal(await readInTime(under), quoted(99));
  assert.equal(reference(under), label(behind));
});

test("the next reference must have the finalized block of the last one", async () => {
  await using lost = await startBlockNode("lost");
  await using fork = await startBlockNode("fork");
  await using same = await startBlockNode("same");
  fork.says = (method, [number]) => {
    const isAsked = method === "chain_getFinalizedHead" || number === 98;
    return isAsked ? quoted(98, 1) : undefined;
  };
  fork.best = 101;
  await using under = await started(lost, fork, same);
  announce(under, 98);
  under.pool.reference.lose(label(lost));
  await until(() => {
    under.clock.advance(100);
    return reference(under) !== undefined;
  });
  assert.equal(reference(under), label(same));
  assert.ok(under.lines.some(({ message }) => message === "node has finalized another chain"));
});

test("a reference that finalizes nothing is left after twenty seconds", async () => {
  await using behind = await startBlockNode("behind");
  await using ahead = await startBlockNode("ahead");
  await using under = await started(behind, ahead);
  await probeRounds(under, 6);
  assert.equal(reference(under), label(behind), "the other node has not finalized more");
  ahead.finalized = 99;
  await probeRounds(under, 4);
  assert.equal(reference(under), label(behind));
  await probeRounds(under, 1);
  assert.equal(reference(under), label(ahead));
});

test("a reference that is always a little behind is kept, and one that is far behind is not", async () => {
  await using behind = await startBlockNode("behind", { best: 1000 });
  await using ahead = await startBlockNode("ahead", { best: 1000 });
  await using under = await started(behind, ahead);
  for (let round = 0; round < 8; round++) {
    ahead.finalized++;
    await probeRounds(under, 1);
    behind.finalized++;
  }
  assert.equal(reference(under), label(behind));
  ahead.finalized += 70;
  for (let round = 0; round < 5; round++) {
    behind.finalized++;
    await probeRounds(under, 1);
  }
  assert.equal(reference(under), label(ahead));
});

test("a finalized head far above the other nodes is not believed", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await started(liar, honest);
  announce(under, 117);
  assert.equal(under.pool.reference.floor, 0);
  liar.says = (method, [hash]) => {
    if (method === "chain_getFinalizedHead") return quoted(1_000_000);
    return method === "chain_getHeader" && hash === hashOf(1_000_000)
      ? '{"number":"0xf4240"}'
      : undefined;
  };
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
  assert.equal(reference(under), label(honest));
});

test("a node that invents a finalized head before the others are known is not believed", async () => {
  await using liar = await startBlockNode("liar", { finalized: 1_000_000 });
  await using honest = await startBlockNode("honest");
  liar.says = (method, [hash]) =>
    method === "chain_getHeader" && hash === hashOf(1_000_000) ? '{"number":"0xf4240"}' : undefined;
  honest.stalls = (method) => method === "system_health";
  await using under = startPool([liar.url, honest.url]);
  await until(() => under.pool.ready);
  honest.stalls = () => false;
  under.clock.advance(PROBE_MS);
  await under.pool.firstProbe;
  await under.pool.probe();
  assert.deepEqual(under.exclusionReasons(), [undefined, undefined]);
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
});

test("a node that does not have its own finalized head is not the reference", async () => {
  await using liar = await startBlockNode("liar");
  await using honest = await startBlockNode("honest");
  await using under = await started(liar, honest);
  liar.says = (method) => (method === "chain_getFinalizedHead" ? quoted(150) : undefined);
  assert.deepEqual(await read(under), Array(4).fill(quoted(98)));
});

test("a node that is lost while its finalized head is checked has not given an empty answer", async () => {
  await using lost = await startBlockNode("lost");
  await using behind = await startBlockNode("behind");
  await using under = await started(lost, behind);
  for (const node of [lost, behind]) {
    node.finalized = 99;
    node.stalls = (method) => {
      if (method === "chain_getHeader") for (const socket of node.open) socket.destroy();
      return method === "chain_getHeader";
    };
  }
  assert.equal(await readInTime(under), "unreachable");
  const series = [...under.values.keys()];
  assert.ok(!series.some((name) => name.includes("empty_answer")), series.join(" "));
});

test("the finalized head does not go back when a node changes its runtime", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind", { finalized: 97 });
  await using under = await started(ahead, behind);
  assert.equal(await under.outcome(finalizedHead), quoted(99));
  const { epoch } = under.pool;
  behind.says = (method) =>
    method === "state_getRuntimeVersion" ? '{"specName":"test","specVersion":2}' : undefined;
  ahead.stalls = (method) => method === "system_health";
  void under.pool.probe();
  await until(() => under.pool.epoch > epoch);
  assert.deepEqual(await read(under), Array(4).fill(quoted(99)));
});

test("a finalized head that was read before the chain was known counts afterwards", async () => {
  await using ahead = await startBlockNode("ahead", { finalized: 99 });
  await using behind = await startBlockNode("behind");
  ahead.stalls = (method) => method === "system_health";
  await using under = startPool([ahead.url, behind.url]);
  assert.equal(await under.outcome(finalizedHeight), "99");
  const isProbed = (best: number) => (): boolean => under.pool.status()[1]?.best === best;
  await until(isProbed(100));
  // The pool no longer waits for the first node, and the second one determines the chain.
  under.clock.advance(2_000);
  assert.ok(under.pool.ready);
  behind.best = 101;
  while (!isProbed(101)()) {
    under.clock.advance(100);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal(under.pool.reference.floor, 99);
});

test("a finalized head that no node reports to its probes is withdrawn after a minute", async () => {
  await using wrong = await startBlockNode("wrong");
  await using right = await startBlockNode("right");
  await using under = await started(wrong, right);
  announce(under, 105);
  await under.pool.probe();
  under.clock.advance(59_000);
  await under.pool.probe();
  assert.equal(under.pool.reference.floor, 105);
  under.clock.advance(1000);
  await under.pool.probe();
  assert.equal(under.pool.reference.floor, 0);
});

test("a finalized head far above the other nodes is withdrawn, although its node was the only one that was used", async () => {
  await using wrong = await startBlockNode("wrong", { best: 1_000_000, finalized: 999_990 });
  await using right = await startBlockNode("right");
  await using under = await started(wrong, right);
  assert.equal(await under.outcome(finalizedHead), quoted(999_990));
  await wrong.close();
  await under.probes(() => under.exclusionReasons()[1] === undefined);
  await under.pool.probe();
  under.clock.advance(60_000);
  await under.pool.probe();
  assert.equal(await under.outcome(finalizedHead), quoted(98));
});

test("one node can be called alone, and its answer is not cached, shared or judged", async () => {
  await using a = await startBlockNode("a");
  await using b = await startBlockNode("b", { finalized: 97 });
  await using under = await started(a, b);
  const nodes = under.pool.nodes ?? [];
  assert.deepEqual(
    nodes.map(({ name }) => name),
    [label(a), label(b)],
  );
  const answers = await Promise.all(nodes.map((node) => node.call("chain_getFinalizedHead", "[]")));
  assert.deepEqual(
    answers.map((answer) => answer.kind === "result" && answer.bytes.toString()),
    [quoted(98), quoted(97)],
  );
  await b.close();
  assert.deepEqual((await nodes[1]!.call("chain_getHeader", "[]")).kind, "failed");
});
