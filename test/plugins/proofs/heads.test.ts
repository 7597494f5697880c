/** Tests of the algorithm that checks finalized heads: what honest nodes prove, and that every kind of lie is caught. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { FinalizedChain } from "../../../plugins/proofs/proofs/finalized-chain.ts";
import { checkHeads, type NodeHead } from "../../../plugins/proofs/proofs/head-check.ts";
import { NodeError, type HeadNode } from "../../../plugins/proofs/proofs/node.ts";
import {
  finalityProof,
  justification,
  TestChain,
  voters,
  type TestBlock,
  type TestJustification,
  type TestVote,
} from "./test-chain.ts";

const set = voters(10);

async function provedChain(): Promise<{ chain: TestChain; proved: FinalizedChain }> {
  const chain = new TestChain(set).add({}, 10).finalize();
  const proved = new FinalizedChain(chain.checkpoint(0));
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  chain.add({}, 10).finalize();
  return { chain, proved };
}

async function states(nodes: readonly HeadNode[], chain?: FinalizedChain): Promise<string[]> {
  return (await checkHeads(nodes, chain)).map(({ state }) => state);
}

async function headOf(node: HeadNode, chain: FinalizedChain): Promise<NodeHead> {
  const [head] = await checkHeads([node], chain);
  assert.ok(head);
  return head;
}

function proofBy(chain: TestChain, changes: (target: TestBlock) => Partial<TestJustification>) {
  return (method: string, param: unknown): unknown =>
    method === "grandpa_proveFinality" && Number(param) <= chain.finalized
      ? chain.prove(Number(param), changes(chain.targetOf(Number(param))))
      : undefined;
}

test("the head of every node is proved by one justification", async () => {
  const { chain, proved } = await provedChain();
  let proofs = 0;
  const count = (method: string): undefined =>
    void (proofs += Number(method === "grandpa_proveFinality"));
  const behind = (method: string): unknown =>
    method === "chain_getFinalizedHead" ? chain.at(18).hash : undefined;
  const nodes = [chain.node("a", count), chain.node("b", count), chain.node("c", behind)];
  assert.deepEqual(await states(nodes, proved), ["proved", "proved", "proved"]);
  assert.equal(proofs, 1);
  assert.equal(proved.number, 20);
  assert.equal(proved.hash, chain.at(20).hash);
});

test("authority sets are followed through changes with and without delay", async () => {
  const chain = new TestChain(set);
  for (const delay of [0, 3, 0, 1, 0]) chain.add({ next: voters(4), delay }, 5);
  chain.finalize();
  const proved = new FinalizedChain(chain.checkpoint(0));
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  assert.equal(proved.setId, 5n);
  assert.deepEqual(proved.checkpoint, chain.checkpoint(chain.finalized));
});

test("a set changes although the checkpoint or the last head is the last block of a set", async () => {
  const chain = new TestChain(set)
    .add({}, 3)
    .add({ next: voters(4) })
    .finalize();
  const proved = new FinalizedChain(chain.checkpoint(0));
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  assert.equal(proved.setId, 1n);
  chain.add({}, 2).finalize();
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  const later = new FinalizedChain(chain.checkpoint(4));
  assert.deepEqual(await states([chain.node("a")], later), ["proved"]);
});

test("a change that is scheduled before the last proved block takes effect after it", async () => {
  const chain = new TestChain(set)
    .add({}, 3)
    .add({ next: voters(4), delay: 4 }, 10)
    .finalize(6);
  const proved = new FinalizedChain(chain.checkpoint(0));
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  assert.equal(proved.setId, 0n);
  chain.finalize(13);
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  assert.equal(proved.setId, 1n);
});

test("votes for descendants count if the headers in between are given", async () => {
  const { chain, proved } = await provedChain();
  chain.finalize(15);
  const votes = set.map((voter, index) => ({ voter, block: chain.at(15 + (index % 4)) }));
  const withHeaders = proofBy(chain, () => ({ votes, ancestries: chain.blocks.slice(16, 19) }));
  assert.deepEqual(await states([chain.node("a", withHeaders)], proved), ["proved"]);
});

test("more than two thirds of the weight are needed", async () => {
  for (const [total, needed] of [
    [1, 1],
    [3, 3],
    [4, 3],
    [9, 7],
    [10, 7],
  ] as const) {
    const all = voters(total);
    const chain = new TestChain(all).add({}, 1).finalize();
    for (const [count, state] of [
      [needed - 1, "unproved"],
      [needed, "proved"],
    ] as const) {
      const node = chain.node(
        "a",
        proofBy(chain, (block) => ({ votes: votesOf(block, all.slice(0, count)) })),
      );
      const found = await states([node], new FinalizedChain(chain.checkpoint(0)));
      assert.deepEqual(found, [state], `${count} of ${total}`);
    }
  }
  const heavy = [...voters(1, 100), ...voters(49)];
  const chain = new TestChain(heavy).add({}, 1).finalize();
  const node = chain.node(
    "a",
    proofBy(chain, (block) => ({ votes: votesOf(block, heavy.slice(0, 1)) })),
  );
  assert.deepEqual(await states([node], new FinalizedChain(chain.checkpoint(0))), ["proved"]);
});

test("an authority that votes for two blocks counts once", async () => {
  const { chain, proved } = await provedChain();
  chain.finalize(15);
  const twice = (count: number) => ({
    votes: set
      .slice(0, count)
      .flatMap((voter) => [15, 16].map((at) => ({ voter, block: chain.at(at) }))),
    ancestries: [chain.at(16)],
  });
  const node = (count: number): HeadNode =>
    chain.node(
      "a",
      proofBy(chain, () => twice(count)),
    );
  const few = await headOf(node(6), proved);
  assert.equal(few.reason, "too few authorities of the set have voted");
  assert.deepEqual(await states([node(7)], proved), ["proved"]);
});

type LyingNode = (method: string, param: unknown) => unknown;

function votesOf(block: TestVote["block"], by = set): TestVote[] {
  return by.map((voter) => ({ voter, block }));
}

const voted =
  (votes: (block: TestBlock) => readonly TestVote[]) =>
  (chain: TestChain): LyingNode =>
    proofBy(chain, (block) => ({ votes: votes(block) }));

const headed =
  (from: number, to?: number) =>
  (chain: TestChain): LyingNode =>
  (method, param) =>
    method === "grandpa_proveFinality" && Number(param) <= 20
      ? finalityProof(chain.at(20).hash, chain.justify(chain.at(20)), chain.blocks.slice(from, to))
      : undefined;

const [six, two, one] = [set.slice(0, 6), set.slice(0, 2), set.slice(0, 1)];
const lies: Readonly<Record<string, (chain: TestChain) => LyingNode>> = {
  "a vote is missing": voted((block) => votesOf(block, six)),
  "a vote is repeated": voted((block) => votesOf(block, [...six, ...two])),
  "an authority votes three times": voted((block) => votesOf(block, [...set, ...one, ...one])),
  "others than the authorities vote": voted((block) => votesOf(block, voters(10))),
  "the votes are of another round": voted((block) =>
    votesOf(block).map((vote) => ({ ...vote, round: 8 })),
  ),
  "the votes are of another set id": voted((block) =>
    votesOf(block).map((vote) => ({ ...vote, setId: 1 })),
  ),
  "a signature is of another authority": voted((block) =>
    set.map(({ id, weight }, index) => {
      const { privateKey } = set[(index + 1) % set.length] ?? assert.fail();
      return { voter: { id, weight, privateKey }, block };
    }),
  ),
  "a single signature is wrong": voted((block) =>
    votesOf(block).map((vote, index) => ({ ...vote, round: index === 9 ? 8 : 7 })),
  ),
  "the votes are for the parent": (chain) =>
    proofBy(chain, ({ number }) => ({
      votes: votesOf(chain.at(number - 1)),
      ancestries: [chain.at(number)],
    })),
  "the votes are for another chain": (chain) => {
    const other = chain.fork(12, 20);
    return proofBy(chain, () => ({
      votes: votesOf(other.head),
      ancestries: other.blocks.slice(13),
    }));
  },
  "the headers between votes and target are missing": (chain) => {
    chain.add({}, 3);
    return proofBy(chain, () => ({ votes: votesOf(chain.head) }));
  },
  "the target has another number": (chain) =>
    proofBy(chain, ({ hash, number }) => ({
      target: { hash, number: number + 1 },
      votes: votesOf({ hash, number: number + 1 }),
    })),
  "a header is missing": headed(13, 20),
  "the headers begin too late": headed(15),
  "a header schedules a set of the node": (chain) => {
    const evil = new TestChain(set).add({}, 10).add({ next: voters(1) }, 10);
    return (method, param) => {
      if (method === "chain_getHeader")
        return evil.blocks.find(({ hash }) => hash === param)?.header;
      return method === "grandpa_proveFinality" && Number(param) <= 20
        ? finalityProof(chain.at(20).hash, chain.justify(chain.at(20)), evil.blocks.slice(12))
        : undefined;
    };
  },
  "the header has another hash": (chain) => (method, param) =>
    method === "chain_getHeader" && param === chain.at(20).hash ? chain.at(19).header : undefined,
};

for (const [name, lie] of Object.entries(lies)) {
  test(`a lie is caught: ${name}`, async () => {
    const { chain, proved } = await provedChain();
    const found = await headOf(chain.node("liar", lie(chain)), proved);
    assert.equal(found.state, "differs", found.reason ?? "");
    assert.equal(proved.number, 10);
    chain.finalize(20);
    const both = [chain.node("liar", lie(chain)), chain.node("b")];
    assert.equal((await checkHeads(both, proved))[1]?.state, "proved");
    assert.equal(proved.hash, chain.at(20).hash);
  });
}

test("a node on a fork is caught at the proved height, above and below it", async () => {
  const { chain, proved } = await provedChain();
  for (const length of [6, 8, 30]) {
    const fork = chain.fork(12, length);
    const unproved = (method: string): unknown =>
      method === "grandpa_proveFinality" ? null : undefined;
    assert.deepEqual(
      await states([fork.node("liar", unproved), chain.node("b")], proved),
      ["differs", "proved"],
      `${length}`,
    );
  }
});

test("a node that names a head without a proof is not believed", async () => {
  const { chain, proved } = await provedChain();
  const ahead = new TestChain(set);
  ahead.blocks.splice(0, Infinity, ...chain.blocks);
  ahead.add({}, 100).finalize();
  const reasons: [(method: string) => unknown, RegExp][] = [
    [(method) => (method === "grandpa_proveFinality" ? null : undefined), /no justification/],
    [(method) => (method === "grandpa_proveFinality" ? "0x00" : undefined), /no finality proof/],
    [(method) => (method === "grandpa_proveFinality" ? 5 : undefined), /no finality proof/],
    [(method) => (method === "grandpa_proveFinality" ? chain.prove(2) : undefined), /older/],
    [
      (method) => {
        if (method !== "grandpa_proveFinality") return undefined;
        throw new NodeError("the node does not offer grandpa_proveFinality");
      },
      /does not offer/,
    ],
  ];
  for (const [lie, reason] of reasons) {
    const [found, other] = await checkHeads([ahead.node("liar", lie), chain.node("b")], proved);
    assert.match(found?.reason ?? "", reason);
    assert.notEqual(found?.state, "proved");
    assert.equal(other?.state, "proved");
  }
});

test("a node that answers nothing usable is silent", async () => {
  const { chain, proved } = await provedChain();
  for (const value of [null, 1, "0x12", {}, chain.at(0).hash.slice(0, 64)]) {
    const node = chain.node("a", (method) =>
      method === "chain_getFinalizedHead" ? value : undefined,
    );
    assert.deepEqual(await states([node, chain.node("b")], proved), ["silent", "proved"]);
  }
  const header = chain.node("a", (method) =>
    method === "chain_getHeader" ? { number: "0x1" } : undefined,
  );
  assert.deepEqual(await states([header], proved), ["silent"]);
});

test("a set proves nothing after its last block", async () => {
  const chain = new TestChain(set).add({}, 5).add({ next: voters(4), delay: 2 }, 10);
  chain.sets.pop();
  chain.finalize();
  const proved = new FinalizedChain(chain.checkpoint(0));
  const found = await headOf(chain.node("a"), proved);
  assert.match(found.reason ?? "", /replaced before the justified block/);
  assert.equal(proved.number, 0);
  chain.finalize(7);
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  chain.finalize();
  assert.match((await headOf(chain.node("a"), proved)).reason ?? "", /replaced before/);
  assert.equal(proved.number, 7);
});

test("a forced change ends the trust until there is a new checkpoint", async () => {
  const chain = new TestChain(set)
    .add({}, 5)
    .add({ forced: voters(4), delay: 20 }, 5)
    .finalize(8);
  const proved = new FinalizedChain(chain.checkpoint(0));
  assert.deepEqual(await states([chain.node("a")], proved), ["proved"]);
  chain.finalize(10);
  const found = await headOf(chain.node("a"), proved);
  assert.equal(found.state, "unproved");
  assert.equal(found.reason, "block 6 forces another authority set");
});

test("a set without weight ends the trust", async () => {
  const chain = new TestChain(set).add({ next: [] }, 2).finalize(1);
  const proved = new FinalizedChain(chain.checkpoint(0));
  await states([chain.node("a")], proved);
  assert.match(proved.ended ?? "", /without weight/);
  assert.throws(() => new FinalizedChain({ ...chain.checkpoint(0), authorities: [] }), /weight/);
});

test("a checkpoint that the chain contradicts proves nothing", async () => {
  const chain = new TestChain(set).add({}, 10).finalize();
  const wrong = new FinalizedChain({ ...chain.checkpoint(4), hash: chain.at(3).hash });
  const found = await headOf(chain.node("a"), wrong);
  assert.equal(found.reason, "the finalized chain contradicts the checkpoint");
  assert.equal(wrong.number, 4);
  const otherSet = {
    ...chain.checkpoint(4),
    authorities: new TestChain(voters(10)).checkpoint(0).authorities,
  };
  const unknown = await headOf(chain.node("a"), new FinalizedChain(otherSet));
  assert.equal(unknown.state, "unproved");
  assert.equal(unknown.reason, "too few authorities of the set have voted");
});

test("two finalized chains end the trust", async () => {
  const { chain, proved } = await provedChain();
  await states([chain.node("a")], proved);
  const other = chain.fork(15, 20);
  const lie = (method: string, param: unknown): unknown =>
    method === "grandpa_proveFinality" && Number(param) <= other.finalized
      ? finalityProof(
          other.head.hash,
          justification({
            target: other.head,
            votes: votesOf(other.head),
            setId: 0,
          }),
          other.blocks.slice(Number(param) + 1),
        )
      : undefined;
  await states([other.node("a", lie)], proved);
  assert.equal(proved.ended, "the authorities have finalized two chains");
  assert.equal(proved.hash, chain.at(20).hash);
});
