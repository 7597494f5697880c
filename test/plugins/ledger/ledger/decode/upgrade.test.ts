/** Blocks around a runtime upgrade: at the hash of the block that upgrades, a node already returns the new runtime. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fixture, skipWithoutFixtures, upgradeBlocks } from "./chains.ts";
import { referenceDecoder } from "./polkadot-reference.ts";
import { scriptedNode, type Said } from "./scripted-node.ts";

test(
  "every block around an upgrade is read with the runtime that produced it",
  {
    skip: skipWithoutFixtures,
  },
  async () => {
    const metadata = new Map([
      [18000, fixture("midnight-stub/metadata-v14.hex")],
      [18001, fixture("midnight-stub/metadata-v14-spec18001.hex")],
    ]);
    const blocks = upgradeBlocks();
    const first = blocks[0];
    assert(first !== undefined);
    assert.equal(first.specVersionAtHash, 18001);
    const versions = new Map(blocks.map((block) => [block.hash, block.specVersionAtHash]));
    versions.set(first.result.block.header.parentHash, 18000);
    const versionAt = (hash: string | undefined): number => versions.get(hash ?? "") ?? 0;
    await using node = scriptedNode({
      chain_getHeader: (hash) => ({
        value: blocks.find((block) => block.hash === hash)?.result.block.header,
      }),
      state_getRuntimeVersion: (hash): Said => ({
        value: { specName: "midnight", specVersion: versionAt(hash) },
      }),
      state_getMetadata: (hash) => ({ value: metadata.get(versionAt(hash)) }),
      state_getStorage: (_, hash) => ({
        value: blocks.find((block) => block.hash === hash)?.events,
      }),
    });
    const judges = new Map([...metadata].map(([version, hex]) => [version, referenceDecoder(hex)]));
    for (const { hash, result, events } of blocks) {
      const judge = judges.get(versionAt(result.block.header.parentHash));
      assert(judge !== undefined && events !== null);
      const { extrinsics } = result.block;
      assert.deepEqual(await node.decoder.events(hash), {
        ok: true,
        json: JSON.stringify(judge.events(events)),
      });
      assert.deepEqual(await node.decoder.extrinsics(Buffer.from(JSON.stringify(result)), hash), {
        ok: true,
        json: JSON.stringify(extrinsics.map((raw, index) => judge.extrinsic(raw, index))),
      });
    }
    assert.equal(node.asked("state_getMetadata"), 2);
  },
);
