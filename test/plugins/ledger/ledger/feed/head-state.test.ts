/** Tests of the state machine that finds the heads that are new after a move, with nodes that the test answers for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { HeadState, type HeadKind } from "../../../../../plugins/ledger/ledger/feed/head-state.ts";
import type { HeaderSource } from "../../../../../plugins/ledger/ledger/feed/notification-state.ts";
import { headerOf } from "./chain-node.ts";

const node: HeaderSource = {
  best: 3,
  header: (hash) => Promise.resolve(headerOf(Number(hash))),
};
const silent: HeaderSource = { best: 3, header: () => Promise.resolve(undefined) };
const liar: HeaderSource = { best: 3, header: () => Promise.resolve(headerOf(1)) };

async function followed(to: number, kind: HeadKind = "new"): Promise<HeadState> {
  const state = new HeadState(kind);
  for (let number = 1; number <= to; number++) await state.accept(headerOf(number), node);
  return state;
}

test("after a move, the headers in between are read, and known or older heads are left out", async () => {
  const state = await followed(3);
  state.moved();
  for (const number of [1, 2, 3]) assert.deepEqual(await state.accept(headerOf(number), node), []);
  assert.deepEqual(await state.accept(headerOf(3, 1), node), [], "a shorter fork");
  const expected = [headerOf(4), headerOf(5), headerOf(6)];
  assert.deepEqual(await state.accept(headerOf(6), node), expected);
  assert.equal(state.current, headerOf(6));
});

test("a node without the headers in between is not used, and the next one fills the gap", async () => {
  for (const bad of [silent, liar]) {
    const state = await followed(3);
    state.moved();
    assert.equal(await state.accept(headerOf(6), bad), "invalid");
    state.moved();
    const expected = [headerOf(4), headerOf(5), headerOf(6)];
    assert.deepEqual(await state.accept(headerOf(6), node), expected);
  }
});

test("a gap of more than 256 blocks is accepted if a second node confirms it", async () => {
  const state = await followed(3);
  const ofPool = { ...node, best: 300 };
  state.moved();
  assert.equal(await state.accept(headerOf(300), ofPool), "invalid");
  state.moved();
  assert.equal(await state.accept(headerOf(300), ofPool), "gap");
});

test("a first head far above the best block of the pool is invalid, and the next node is used", async () => {
  for (const kind of ["new", "all", "finalized"] as const) {
    const state = new HeadState(kind);
    assert.equal(await state.accept(headerOf(2 ** 40), node), "invalid", kind);
    assert.equal(state.current, undefined);
    state.moved();
    assert.deepEqual(await state.accept(headerOf(3), node), [headerOf(3)]);
    assert.deepEqual(await state.accept(headerOf(4), node), [headerOf(4)]);
  }
});

test("a head may be 16 blocks above the best block of the pool, and 256 after its predecessor", async () => {
  const state = new HeadState("new");
  assert.equal(await state.accept(headerOf(20), node), "invalid");
  for (let number = 19; number <= 259; number++) {
    assert.deepEqual(await state.accept(headerOf(number), node), [headerOf(number)]);
  }
  assert.equal(await state.accept(headerOf(260), node), "invalid");
  // Before the first probe, nothing is known about the chain.
  const unknown = { ...node, best: undefined };
  assert.deepEqual(await new HeadState("new").accept(headerOf(9_000), unknown), [headerOf(9_000)]);
});

test("a jump of the same node and a notification that is not a header are invalid", async () => {
  const state = await followed(3);
  assert.equal(await state.accept(headerOf(1000), node), "invalid");
  for (const text of ["null", "[]", "{}", '"0x1"', headerOf(4).replace('"0x4"', '"4"')]) {
    assert.equal(await state.accept(text, node), "invalid", text);
  }
});

test("the finalized head may jump up to the best block of the pool, as after a stall of finality", async () => {
  const state = await followed(3, "finalized");
  const ofPool = { ...node, best: 5_000 };
  assert.deepEqual(await state.accept(headerOf(4_000), ofPool), [headerOf(4_000)]);
  assert.equal(await state.accept(headerOf(6_000), ofPool), "invalid");
});

test("after a move, the heads of a fork are not missing among all heads", async () => {
  const state = await followed(3, "all");
  state.moved();
  // The second node has block 3 of another fork, and then block 4 on it.
  const fork: HeaderSource = {
    best: 4,
    header: (hash) => Promise.resolve(headerOf(Number(hash), Number(hash) === 3 ? 1 : 0)),
  };
  assert.deepEqual(await state.accept(headerOf(4), fork), [headerOf(3, 1), headerOf(4)]);
  state.moved();
  assert.deepEqual(await state.accept(headerOf(4), node), []);
  assert.deepEqual(await state.accept(headerOf(4, 2), node), [headerOf(4, 2)]);
  assert.deepEqual(await state.accept(headerOf(5), silent), [headerOf(5)]);
});

test("with random moves between nodes that lag differently, every head arrives once and in order", async () => {
  const step = fc.record({ isMove: fc.boolean(), node: fc.nat(2), blocks: fc.nat(4) });
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom<HeadKind>("new", "all", "finalized"),
      fc.array(step, { maxLength: 60 }),
      async (kind, history) => {
        const state = new HeadState(kind);
        const best = [10, 10, 10];
        const received: string[] = [];
        let current = 0;
        /** The node announces its best block. It has the headers up to this block. */
        const announce = async (): Promise<void> => {
          const own = best[current]!;
          const accepted = await state.accept(headerOf(own), {
            best: Math.max(...best),
            header: (hash) =>
              Promise.resolve(Number(hash) <= own ? headerOf(Number(hash)) : undefined),
          });
          assert.ok(typeof accepted !== "string", String(accepted));
          received.push(...accepted);
        };
        await announce();
        for (const { isMove, node: other, blocks } of history) {
          if (isMove) {
            state.moved();
            current = other;
            await announce();
          }
          for (let block = 0; block < blocks; block++) {
            best[other]!++;
            if (other === current) await announce();
          }
        }
        assert.deepEqual(
          received,
          Array.from(received, (_, index) => headerOf(10 + index)),
        );
      },
    ),
    { numRuns: 300, seed: 19 },
  );
});
