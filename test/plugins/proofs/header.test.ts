/** Headers of recorded chains, judged by `@polkadot/types`, and headers that nobody would send. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { headerOfJson, readHeader } from "../../../plugins/proofs/proofs/header.ts";
import { bytesOf, compact, readScale } from "../../../plugins/proofs/proofs/scale.ts";
import {
  demoChain,
  fixtureChain,
  fixtureSets,
  skipWithoutFixtures,
  type Chain,
} from "../ledger/ledger/decode/chains.ts";
import { registry, TestChain, voters } from "./test-chain.ts";

/** Chopsticks gives block 0 a hash of its own. */
function assertHashes({ blocks }: Pick<Chain, "blocks">): void {
  assert.ok(blocks.length > 1);
  for (const { number, hash, result } of blocks.slice(1)) {
    const header = headerOfJson(result.block.header);
    assert.equal(header?.hash, hash);
    assert.equal(header.number, number);
    const judged = registry.createType("Header", result.block.header);
    const { parentHash, stateRoot, extrinsicsRoot } = judged;
    assert.deepEqual(
      [header.parentHash, header.stateRoot, header.extrinsicsRoot],
      [parentHash.toHex(), stateRoot.toHex(), extrinsicsRoot.toHex()],
    );
    assert.deepEqual(readScale(judged.toU8a(), readHeader), header);
  }
}

test("the hashes of the demo's blocks are those of their headers", () => assertHashes(demoChain()));

for (const name of fixtureSets) {
  test(
    `the hashes of the blocks of ${name} are those of their headers`,
    {
      skip: skipWithoutFixtures,
    },
    () => assertHashes(fixtureChain(name, 14)),
  );
}

test("numbers may be padded, and what is not a header is refused", () => {
  const chain = new TestChain(voters(1)).add({}, 300);
  const { hash, header } = chain.head;
  for (const number of ["0x12c", "0x0000012C"])
    assert.equal(headerOfJson({ ...header, number })?.hash, hash);
  const wrong: unknown[] = [
    null,
    [],
    {},
    { ...header, number: 300 },
    { ...header, number: "0x1ffffffff" },
    { ...header, number: "300" },
    { ...header, parentHash: "0x12" },
    { ...header, parentHash: `${hash}00` },
    { ...header, stateRoot: hash.replace("0x", "0y") },
    { ...header, extrinsicsRoot: null },
    { ...header, digest: null },
    { ...header, digest: { logs: {} } },
    { ...header, digest: { logs: ["0x"] } },
    { ...header, digest: { logs: ["0x01"] } },
    { ...header, digest: { logs: ["0x00fc"] } },
    { ...header, digest: { logs: ["0x000000"] } },
  ];
  for (const value of wrong) assert.equal(headerOfJson(value), undefined, JSON.stringify(value));
});

test("compact integers are those of SCALE, and only the shortest form is read", () => {
  for (const value of [0, 1, 63, 64, 16_383, 16_384, 2 ** 30 - 1, 2 ** 30, 2 ** 32 - 1]) {
    const bytes = registry.createType("Compact<u32>", value).toU8a();
    assert.deepEqual(Uint8Array.from(compact(value)), bytes);
    assert.equal(
      readScale(bytes, (reader) => reader.compact()),
      value,
    );
  }
  for (const longer of ["0x0100", "0xfd00", "0x02000000", "0x0300000000", "0x0700000000ff", "0x03"])
    assert.equal(
      readScale(bytesOf(longer) ?? assert.fail(), (reader) => reader.compact()),
      undefined,
    );
});
