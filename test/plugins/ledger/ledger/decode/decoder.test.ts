import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeAddress } from "@polkadot/util-crypto";
import type { DecodedJson } from "sluice-gateway/services";
import { demoChain, fixture, skipWithoutFixtures, upgradeBlocks } from "./chains.ts";
import { referenceDecoder } from "./polkadot-reference.ts";
import { honest, scriptedNode, type Said } from "./scripted-node.ts";

const chain = demoChain();
const reference = referenceDecoder(chain.metadata);
const block = chain.blocks[4];
assert(block !== undefined && block.events !== null);
const bytes = Buffer.from(JSON.stringify(block.result));
const { extrinsics } = block.result.block;
const parent = block.result.block.header.parentHash;
const expected = JSON.stringify(extrinsics.map((raw, index) => reference.extrinsic(raw, index)));
const happened = JSON.stringify(reference.events(block.events));
const zeros =
  '{"nonce":0,"consumers":0,"providers":0,"sufficients":0,"data":{"free":"0","reserved":"0","miscFrozen":"0","feeFrozen":"0"}}';
const alice = Buffer.from(
  "d43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d",
  "hex",
);
const script = honest(chain);
const absent = `0x${"ab".repeat(32)}`;

const jsonOf = (said: DecodedJson): string => {
  assert(said.ok, said.ok ? "" : said.reason);
  return said.json;
};
const failed = (reason: string): object => ({ ok: false, reason });

test("concurrent reads of a block's extrinsics and events fetch the metadata once", async () => {
  await using node = scriptedNode(script);
  const { decoder } = node;
  const [first, second, events] = await Promise.all([
    decoder.extrinsics(bytes, block.hash),
    decoder.extrinsics(bytes, block.hash),
    decoder.events(block.hash),
  ]);
  assert.equal(jsonOf(first), expected);
  assert.equal(jsonOf(second), expected);
  assert.equal(jsonOf(events), happened);
  assert.equal(node.asked("state_getMetadata"), 1);
  assert.equal(node.asked("chain_getHeader"), 0);
});

test("if the parent's state was pruned, the runtime is read at the block", async () => {
  await using node = scriptedNode({
    ...script,
    state_getRuntimeVersion: (hash) =>
      hash === parent ? "error" : { value: chain.runtimeVersion },
  });
  assert.equal(jsonOf(await node.decoder.extrinsics(bytes, block.hash)), expected);
  assert(node.calls.includes(`state_getMetadata["${block.hash}"]`));
});

test("the first block has no parent, so the runtime is read at the block", async () => {
  await using node = scriptedNode({
    ...script,
    chain_getHeader: () => ({ value: { parentHash: `0x${"0".repeat(64)}` } }),
  });
  assert.equal(jsonOf(await node.decoder.events(block.hash)), happened);
  assert(node.calls.includes(`state_getRuntimeVersion["${block.hash}"]`));
});

test("a block that no node knows is reported as unknown", async () => {
  await using node = scriptedNode(script);
  assert.deepEqual(await node.decoder.events(absent), failed("unknownBlock"));
  assert.deepEqual(await node.decoder.account(alice, absent), failed("unknownBlock"));
  assert.deepEqual(
    await node.decoder.extrinsics(Buffer.from("null"), absent),
    failed("undecodable"),
  );
});

test("without a node the reason is unreachable, and after an abort it is aborted", async () => {
  for (const [said, reason] of [
    ["failed", "unreachable"],
    ["aborted", "aborted"],
  ] as const) {
    for (const method of ["state_getRuntimeVersion", "state_getStorage", "chain_getBlockHash"]) {
      await using node = scriptedNode({ ...script, [method]: (): Said => said });
      const { decoder } = node;
      const hash: string | undefined = method === "chain_getBlockHash" ? undefined : block.hash;
      assert.deepEqual(await decoder.account(alice, hash), failed(reason), method);
    }
  }
});

test("unexpected answers fail without hanging or throwing", async () => {
  const odd: readonly Said[] = [
    { value: 7 },
    { value: "" },
    { value: "0x" },
    { value: "0x0" },
    { value: "0xzz" },
    { value: {} },
    { value: [] },
    { value: { specName: 1, specVersion: "x", parentHash: 2 } },
    { text: "{" },
    { text: '"0x' },
    { text: "" },
  ];
  for (const method of Object.keys(script)) {
    for (const said of odd) {
      await using node = scriptedNode({ ...script, [method]: () => said });
      const { decoder } = node;
      const results: object[] = [
        method === "chain_getBlockHash" ? failed("") : await decoder.events(block.hash),
        await decoder.account(alice, undefined),
      ];
      for (const result of results) assert("ok" in result);
      // A value that is not an account or not a list of events must not be accepted as one.
      if (method === "state_getStorage") for (const result of results) assert("reason" in result);
    }
  }
});

test("answers that are not blocks are undecodable", async () => {
  await using node = scriptedNode(script);
  const whole = bytes.toString();
  const list = JSON.stringify(extrinsics);
  const changed = (from: string, to: string): string => whole.replace(list, list.replace(from, to));
  const odd = ["", "{}", "[]", "7", '{"block":{}}', '{"block":{"header":{},"extrinsics":[]}}'];
  odd.push(whole.slice(0, -30), whole.replace(parent, "0x12"), changed('["0x', '[7,"0x'));
  odd.push(changed('["0x', '["\\u0030x'), changed('"]', '"'), changed('","0x', '""0x'));
  for (const text of odd) {
    const said = await node.decoder.extrinsics(Buffer.from(text), block.hash);
    assert.deepEqual(said, failed("undecodable"), text.slice(0, 60));
  }
});

test("an invalid extrinsic does not affect the others", async () => {
  await using node = scriptedNode(script);
  const bad = [
    "0x",
    "0x04",
    "0xzz",
    "",
    "0x0",
    "0x280402000b4a2402fba10",
    `0x${"ff".repeat(40)}`,
    "hello",
  ];
  const list = [...bad, ...extrinsics];
  const text = bytes.toString().replace(JSON.stringify(extrinsics), JSON.stringify(list));
  const said = JSON.parse(jsonOf(await node.decoder.extrinsics(Buffer.from(text), block.hash)));
  assert.equal(said.length, list.length);
  for (const [index, raw] of bad.entries()) {
    assert.deepEqual(said[index], {
      index,
      pallet: "unknown",
      method: "unknown",
      args: "0x",
      isSigned: false,
      raw,
    });
  }
  const good = extrinsics.map((raw, i) => reference.extrinsic(raw, bad.length + i));
  assert.deepEqual(said.slice(bad.length), good);
});

test("a block of many extrinsics is decoded in a thread, to the same text", async () => {
  await using node = scriptedNode(script);
  const many = Array.from({ length: 400 }, () => extrinsics).flat();
  const text = bytes.toString().replace(JSON.stringify(extrinsics), JSON.stringify(many));
  const block64k = Buffer.from(text);
  const before = Buffer.from(block64k);
  assert(block64k.length > 200_000);
  const said = await node.decoder.extrinsics(block64k, block.hash);
  const decoded = extrinsics.map((raw, index) => reference.extrinsic(raw, index));
  const all = many.map((_, index) => ({ ...decoded[index % extrinsics.length], index }));
  assert.equal(jsonOf(said), JSON.stringify(all));
  assert(block64k.equals(before), "what was borrowed is untouched");
  const odd = text.replace('"extrinsics":["0x', '"extrinsics":[7,"0x');
  assert.deepEqual(
    await node.decoder.extrinsics(Buffer.from(odd), block.hash),
    failed("undecodable"),
  );
});

test("a closed compute pool fails jobs that need a thread", async () => {
  await using node = scriptedNode(script);
  await node.compute.close();
  const many = Array.from({ length: 400 }, () => extrinsics).flat();
  const text = bytes.toString().replace(JSON.stringify(extrinsics), JSON.stringify(many));
  assert.deepEqual(await node.decoder.extrinsics(Buffer.from(text), block.hash), failed("aborted"));
  assert.equal(jsonOf(await node.decoder.extrinsics(bytes, block.hash)), expected);
});

test("a missing account has zeros, and without a block hash the best block is read", async () => {
  await using node = scriptedNode(script);
  assert.equal(jsonOf(await node.decoder.account(alice, undefined)), zeros);
  const best = chain.blocks.at(-1)?.hash ?? "";
  const key =
    "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9de1e86a9a8c739864cf3cc5ec2bea59fd43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d";
  assert(node.calls.includes(`state_getStorage["${key}","${best}"]`));
});

test("after a failed fetch of the metadata, the next read fetches it again", async () => {
  let up = false;
  await using node = scriptedNode({
    ...script,
    state_getMetadata: () => (up ? { value: chain.metadata } : "failed"),
  });
  assert.deepEqual(await node.decoder.events(block.hash), failed("unreachable"));
  up = true;
  assert.equal(jsonOf(await node.decoder.events(block.hash)), happened);
});

test("metadata that does not match is fetched again, at most once per minute", async () => {
  // A development chain that changed its code but kept its version, so that the events of some other pallet moved.
  const other = chain.metadata.replace(
    Buffer.from("ExtrinsicSuccess").toString("hex"),
    Buffer.from("ExtrinsicSuccesX").toString("hex"),
  );
  let metadata = other.slice(0, -2);
  await using node = scriptedNode({ ...script, state_getMetadata: () => ({ value: metadata }) });
  const ask = (): Promise<DecodedJson> => node.decoder.events(block.hash);
  assert.deepEqual(await ask(), failed("undecodable"));
  metadata = chain.metadata;
  assert.deepEqual(await ask(), failed("undecodable"));
  assert.equal(node.asked("state_getMetadata"), 1);
  node.clock.advance(60_000);
  assert.equal(jsonOf(await ask()), happened);
  assert.equal(jsonOf(await ask()), happened);
  assert.equal(node.asked("state_getMetadata"), 2);
});

test("the eight most recently used runtimes are kept", async () => {
  let specVersion = 0;
  await using node = scriptedNode({
    ...script,
    state_getRuntimeVersion: () => ({ value: { specName: "x", specVersion } }),
  });
  const ask = async (version: number): Promise<void> => {
    specVersion = version;
    jsonOf(await node.decoder.events(block.hash));
  };
  for (let version = 0; version < 8; version++) await ask(version);
  await ask(0);
  assert.equal(node.asked("state_getMetadata"), 8);
  await ask(8);
  await ask(0);
  assert.equal(node.asked("state_getMetadata"), 9);
  await ask(1);
  assert.equal(node.asked("state_getMetadata"), 10);
});

const allExtrinsics = chain.blocks.flatMap(({ result }) => result.block.extrinsics);

test("call, signer and argument names equal those of @polkadot/types for every extrinsic of the demo chain", async () => {
  await using node = scriptedNode(honest(chain));
  let signed = 0;
  for (const raw of allExtrinsics) {
    const judged = reference.registry.createType("Extrinsic", raw);
    const said = await node.decoder.summary(Buffer.from(raw.slice(2), "hex"));
    assert(said.ok);
    assert.equal(said.summary.method, judged.meta.name.toString());
    assert.deepEqual(
      Object.keys(said.summary.args),
      judged.meta.fields.map(({ name }) => name.unwrap().toString()),
    );
    const signer = judged.isSigned ? encodeAddress(judged.signer.toString(), 0) : null;
    assert.equal(said.summary.signer, signer);
    if (judged.isSigned) signed++;
  }
  assert(signed > 0);
});

test("the summary of a transfer contains addresses and decimal numbers", async () => {
  await using node = scriptedNode(honest(chain));
  const raw = allExtrinsics.find((each) => {
    const { method } = reference.registry.createType("Extrinsic", each);
    return method.section === "balances" && method.method === "transferKeepAlive";
  });
  assert(raw !== undefined);
  const [dest, value] = reference.registry.createType("Extrinsic", raw).method.args;
  const said = await node.decoder.summary(Buffer.from(raw.slice(2), "hex"));
  assert(said.ok && dest !== undefined && value !== undefined);
  assert.deepEqual(said.summary.args, {
    dest: {
      Id: encodeAddress(dest.toString(), 0),
    },
    value: value.toString(),
  });
});

test("bytes that are not an extrinsic have no summary", async () => {
  await using node = scriptedNode(honest(chain));
  for (const hex of ["", "00", "04", "ff".repeat(100)]) {
    const said = await node.decoder.summary(Buffer.from(hex, "hex"));
    assert.deepEqual(said, { ok: false, reason: "undecodable" });
  }
});

test(
  "every block around an upgrade is read with the runtime that produced it, although a node already returns the new one",
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
    const versions = new Map(blocks.map((one) => [one.hash, one.specVersionAtHash]));
    versions.set(first.result.block.header.parentHash, 18000);
    const versionAt = (hash: string | undefined): number => versions.get(hash ?? "") ?? 0;
    await using node = scriptedNode({
      chain_getHeader: (hash) => ({
        value: blocks.find((one) => one.hash === hash)?.result.block.header,
      }),
      state_getRuntimeVersion: (hash): Said => ({
        value: { specName: "midnight", specVersion: versionAt(hash) },
      }),
      state_getMetadata: (hash) => ({ value: metadata.get(versionAt(hash)) }),
      state_getStorage: (_, hash) => ({
        value: blocks.find((one) => one.hash === hash)?.events,
      }),
    });
    const judges = new Map([...metadata].map(([version, hex]) => [version, referenceDecoder(hex)]));
    for (const { hash, result, events } of blocks) {
      const judge = judges.get(versionAt(result.block.header.parentHash));
      assert(judge !== undefined && events !== null);
      assert.deepEqual(await node.decoder.events(hash), {
        ok: true,
        json: JSON.stringify(judge.events(events)),
      });
      assert.deepEqual(await node.decoder.extrinsics(Buffer.from(JSON.stringify(result)), hash), {
        ok: true,
        json: JSON.stringify(
          result.block.extrinsics.map((raw, index) => judge.extrinsic(raw, index)),
        ),
      });
    }
    assert.equal(node.asked("state_getMetadata"), 2);
  },
);
