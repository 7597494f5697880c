import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOfHeader } from "../../../../../plugins/ledger/ledger/feed/announce-head.ts";
import { demoChain, fixtureChain, fixtureSets, skipWithoutFixtures } from "../decode/chains.ts";

test("the hash of a real header is that of its block", () => {
  const sets = skipWithoutFixtures === false ? fixtureSets : [];
  for (const { name, blocks } of [demoChain(), ...sets.map((set) => fixtureChain(set, 15))]) {
    // The hash of the first block is not real in these recordings.
    const real = blocks.filter(({ number }) => number > 0);
    assert.ok(real.length > 0, name);
    for (const { hash, result } of real) {
      assert.equal(hashOfHeader(result.block.header), hash, name);
    }
  }
});

const root = `0x${"11".repeat(32)}`;
const header = {
  parentHash: root,
  number: "0x1",
  stateRoot: root,
  extrinsicsRoot: root,
  digest: { logs: ["0x0642"] },
};

test("numbers of every width have different hashes, and what is not a header has none", () => {
  const hashes = [1, 2 ** 6, 2 ** 14, 2 ** 30, 2 ** 32 - 1].map((number) =>
    hashOfHeader({ ...header, number: `0x${number.toString(16)}` }),
  );
  assert.ok(!hashes.includes(undefined));
  assert.equal(new Set(hashes).size, 5);
  for (const wrong of [
    {},
    { ...header, number: "0x1g" },
    { ...header, number: "0x100000000" },
    { ...header, parentHash: "0x11" },
    { ...header, stateRoot: 1 },
    { ...header, extrinsicsRoot: null },
    { ...header, digest: {} },
    { ...header, digest: { logs: ["0x1"] } },
  ]) {
    assert.equal(hashOfHeader(wrong), undefined);
  }
});
