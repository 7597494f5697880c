import assert from "node:assert/strict";
import { test } from "node:test";
import { HeadState } from "../../../../../plugins/ledger/ledger/feed/head-state.ts";
import type { HeaderSource } from "../../../../../plugins/ledger/ledger/feed/notification-state.ts";
import { headerOf } from "./chain-node.ts";

/** A node that has every header. */
const node: HeaderSource = { header: (hash) => Promise.resolve(headerOf(Number(hash))) };
const silent: HeaderSource = { header: () => Promise.resolve(undefined) };
const liar: HeaderSource = { header: () => Promise.resolve(headerOf(1)) };

async function followed(to: number, isFinalized = false): Promise<HeadState> {
  const state = new HeadState(isFinalized);
  for (let number = 1; number <= to; number++) await state.accept(headerOf(number), node);
  return state;
}

test("heads of one node are passed on as they are, also those of a fork", async () => {
  const state = await followed(3);
  assert.deepEqual(await state.accept(headerOf(3, 1), node), [headerOf(3, 1)]);
  assert.deepEqual(await state.accept(headerOf(3, 1), node), []);
  assert.deepEqual(
    await state.accept(headerOf(6), node),
    [headerOf(6)],
    "the node may leave out blocks",
  );
});

test("finalized heads never go back", async () => {
  const state = await followed(3, true);
  assert.deepEqual(await state.accept(headerOf(2, 1), node), []);
  assert.deepEqual(await state.accept(headerOf(3, 1), node), []);
  assert.deepEqual(await state.accept(headerOf(4), node), [headerOf(4)]);
});

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
  state.moved();
  assert.equal(await state.accept(headerOf(300), node), "invalid");
  state.moved();
  assert.equal(await state.accept(headerOf(300), node), "gap");
});

test("a jump of the same node and a notification that is not a header are invalid", async () => {
  const state = await followed(3);
  assert.equal(await state.accept(headerOf(1000), node), "invalid");
  for (const text of ["null", "[]", "{}", '"0x1"', headerOf(4).replace('"0x4"', '"4"')]) {
    assert.equal(await state.accept(text, node), "invalid", text);
  }
});
