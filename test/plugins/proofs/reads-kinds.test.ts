/** Each kind of read with its proof: the right answer, and that each lie of a node is caught. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { blake2AsHex, blake2AsU8a } from "@polkadot/util-crypto";
import { hexOf } from "../../../plugins/proofs/proofs/scale.ts";
import { orderedRoot, type Layout } from "../../../plugins/proofs/trie/trie-root.ts";
import { call, charged, startProved, type Lie, type Setup } from "./proved-gateway.ts";
import { until } from "../ledger/until.ts";
import { registry, TestChain, voters } from "./test-chain.ts";
import { childKey, TestState } from "./test-state.ts";

const keyAt = (index: number): string => hexOf(blake2AsU8a(`key ${index % 40}`).fill(7, 0, 4));
const valueAt = (index: number): string => hexOf(Buffer.alloc(40 + index * 3, index));
const keys = Array.from({ length: 40 }, (_, at) => keyAt(at));
const sorted = keys.toSorted();
const other = ["0xaa", "0xaaaa", "0xaabb"];
const state = new TestState(
  new Map([
    ...keys.map((key, at) => [key, valueAt(at)] as const),
    ...other.map((key) => [key, "0x01"] as const),
  ]),
  new Map(keys.slice(0, 20).map((key, at) => [key, valueAt(at + 40)])),
);
const root = hexOf(state.root);
const prefix = "0x07070707";
const absent = "0x0707070700";
const child = hexOf(childKey);
const noChild = hexOf(Buffer.concat([childKey, childKey]));

const extrinsics = [Buffer.alloc(10, 1), Buffer.alloc(100, 2)];
const chains = new Map(
  (["V0", "V1"] as const).map((layout): [Layout, TestChain] => {
    const extrinsicsRoot = orderedRoot(extrinsics, layout);
    return [
      layout,
      new TestChain(voters(4)).add({ stateRoot: state.root, extrinsicsRoot }, 10).finalize(9),
    ];
  }),
);

async function start(
  t: TestContext,
  options: object,
  lies: readonly Lie[] = [() => {}],
  layout: Layout = "V0",
): Promise<Setup> {
  const chain = chains.get(layout) ?? assert.fail();
  return await startProved(t, chain, options, lies, async (method, params) => {
    const block = chain.blocks.find(({ hash }) => hash === params[0]);
    const header = registry.createType("Header", block?.header).toHex();
    if (method === "chain_getBlock")
      return {
        block: { header: block?.header, extrinsics: extrinsics.map(hexOf), more: 1 },
        justifications: null,
      };
    if (method === "archive_v1_body") return extrinsics.map(hexOf);
    if (method === "archive_v1_header") return header;
    return await state.answer(method, params);
  });
}

/** Method, params before the block, and the result. */
type Case = readonly [method: string, params: readonly unknown[], result: unknown];

const stateCases: readonly Case[] = [
  ["state_getStorage", [keyAt(3)], valueAt(3)],
  ["state_getStorageAt", [absent], null],
  ["state_getStorageHash", [keyAt(3)], blake2AsHex(valueAt(3))],
  ["state_getStorageHash", [absent], null],
  ["state_getStorageSize", [keyAt(3)], 49],
  ["state_getStorageSize", [absent], null],
  ["state_queryStorageAt", [[]], []],
  ["state_getKeysPaged", [prefix, 5, null], sorted.slice(0, 5)],
  ["state_getKeysPaged", [prefix, 5, sorted[4]], sorted.slice(5, 10)],
  ["state_getKeysPaged", [prefix, 50, absent], sorted],
  ["state_getKeysPagedAt", [prefix, 1_000, sorted[37]], sorted.slice(38)],
  ["state_getKeysPaged", ["0xaa", 10, null], other],
  ["state_getKeysPaged", ["0xaa", 10, "0xaaaa"], ["0xaabb"]],
  ["state_getKeysPaged", [absent, 5, null], []],
  ["childstate_getStorage", [child, keyAt(3)], valueAt(43)],
  ["childstate_getStorage", [child, keyAt(30)], null],
  ["childstate_getStorage", [noChild, keyAt(3)], null],
  ["childstate_getStorageHash", [child, keyAt(3)], blake2AsHex(valueAt(43))],
  ["childstate_getStorageSize", [child, keyAt(3)], 169],
  [
    "childstate_getStorageEntries",
    [child, [keyAt(3), absent, keyAt(3)]],
    [valueAt(43), null, valueAt(43)],
  ],
  ["childstate_getKeysPaged", [child, prefix, 30, null], keys.slice(0, 20).toSorted()],
  ["childstate_getKeysPaged", [noChild, prefix, 30, null], []],
];
const upstream = { proof: "prefer", methods: { state_getStorageSize: true } };

test("reads of the state are proved", async (t) => {
  const setup = await start(t, upstream);
  const { hash } = setup.chain.at(8);
  for (const [method, params, result] of stateCases) {
    const read = await call(setup, method, [...params, hash]);
    assert.deepEqual([read.result, read.error], [result, undefined], method);
    assert.equal(read.proof, `finalized; block=${hash}; root=${root}`, method);
  }
  const changes = await call(setup, "state_queryStorageAt", [[keyAt(3), absent, keyAt(3)], hash]);
  assert.deepEqual(changes.result, [
    {
      block: hash,
      changes: [
        [keyAt(3), valueAt(3)],
        [absent, null],
      ],
    },
  ]);
});

test("require reads at the proved head if the call names no block", async (t) => {
  const setup = await start(t, { ...upstream, proof: "require" });
  const { hash } = setup.chain.at(9);
  for (const [method, params, result] of stateCases) {
    const read = await call(setup, method, params);
    assert.deepEqual([read.result, read.error], [result, undefined], method);
    assert.equal(read.proof, `finalized; block=${hash}; root=${root}`);
  }
  for (const [method, result] of [
    ["chain_getFinalizedHead", hash],
    ["chain_getBlockHash", hash],
    ["archive_v1_finalizedHeight", 9],
  ] as const) {
    const read = await call(setup, method, []);
    assert.deepEqual(read.result, result);
    assert.equal(read.proof, `finalized; block=${hash}`);
  }
});

for (const layout of ["V0", "V1"] as const)
  test(`headers and blocks with extrinsics in layout ${layout} are proved`, async (t) => {
    const setup = await start(t, upstream, undefined, layout);
    const { hash, header, number } = setup.chain.at(8);
    const scale = registry.createType("Header", header).toHex();
    const body = extrinsics.map(hexOf);
    const extrinsicsRoot = hexOf(orderedRoot(extrinsics, layout));
    const block = {
      block: { header: { ...header, number: "0x8" }, extrinsics: body },
      justifications: null,
    };
    for (const [method, param, result, against = ""] of [
      ["chain_getHeader", hash, { ...header, number: "0x8" }],
      ["chain_getBlock", hash, block, `; root=${extrinsicsRoot}`],
      ["chain_getBlockHash", number, hash],
      ["chain_getBlockHash", "0x8", hash],
      ["archive_v1_hashByHeight", number, [hash]],
      ["archive_v1_header", hash, scale],
      ["archive_v1_body", hash, body, `; root=${extrinsicsRoot}`],
    ] as const) {
      const read = await call(setup, method, [param]);
      assert.deepEqual(read.result, result, method);
      assert.equal(read.proof, `finalized; block=${hash}${against}`, method);
    }
    assert.equal(
      (await call(setup, "chain_getBlockHash", [10])).proof,
      "none; reason=the block with this number is not proved to be finalized",
    );
  });

test("the size of several values together cannot be proved", async (t) => {
  const setup = await start(t, { ...upstream, proof: "require" });
  const read = await call(setup, "state_getStorageSize", [prefix, setup.chain.at(8).hash]);
  assert.deepEqual(read.error?.data, { reason: "the sum of several sizes cannot be proved" });
});

/** The node answers every call with the lie. */
const lies: Readonly<Record<string, readonly [Case, Lie]>> = {
  "a page without a key": [
    ["state_getKeysPaged", [prefix, 50, null], sorted],
    async (method, params) => {
      const answer = await state.answer(method, params);
      return method === "state_getKeysPaged" ? (answer as string[]).toSpliced(20, 1) : undefined;
    },
  ],
  "a page with the keys of another one": [
    ["state_getKeysPaged", [prefix, 5, null], sorted.slice(0, 5)],
    (method) => (method === "state_getKeysPaged" ? sorted.slice(5, 10) : undefined),
  ],
  "the proof of another key": [
    ["state_getStorage", [keyAt(3)], valueAt(3)],
    (method, params) =>
      method === "state_getReadProof" ? state.answer(method, [[keyAt(4)], params[1]]) : undefined,
  ],
  "no proof": [
    ["state_getStorage", [keyAt(3)], valueAt(3)],
    (method) => (method === "state_getReadProof" ? { proof: null } : undefined),
  ],
  "a proof that is no hexadecimal text": [
    ["state_getStorage", [keyAt(3)], valueAt(3)],
    (method) => (method === "state_getReadProof" ? { proof: ["0xzz"] } : undefined),
  ],
  "the proof of the main trie for a child trie": [
    ["childstate_getStorage", [child, keyAt(3)], valueAt(43)],
    (method, params) =>
      method === "state_getChildReadProof"
        ? state.answer("state_getReadProof", [params[1]])
        : undefined,
  ],
  "a body without an extrinsic": [
    ["archive_v1_body", [], extrinsics.map(hexOf)],
    (method) => (method === "archive_v1_body" ? extrinsics.slice(1).map(hexOf) : undefined),
  ],
  "a body in another order": [
    ["archive_v1_body", [], extrinsics.map(hexOf)],
    (method) => (method === "archive_v1_body" ? extrinsics.toReversed().map(hexOf) : undefined),
  ],
  "another header in SCALE": [
    [
      "archive_v1_header",
      [],
      registry.createType("Header", chains.get("V0")?.at(8).header).toHex(),
    ],
    (method) =>
      method === "archive_v1_header"
        ? registry.createType("Header", chains.get("V0")?.at(7).header).toHex()
        : undefined,
  ],
  "the header of another block": [
    ["chain_getHeader", [], { ...chains.get("V0")?.at(8).header, number: "0x8" }],
    (method, [param]) =>
      method === "chain_getHeader" && param === chains.get("V0")?.at(8).hash
        ? chains.get("V0")?.at(7).header
        : undefined,
  ],
};

for (const [name, [[method, params, result], lie]] of Object.entries(lies))
  test(`a lying node is caught: ${name}`, async (t) => {
    const alone = await start(t, { ...upstream, proof: "require" }, [lie]);
    const hash = alone.chain.at(8).hash;
    const { error } = await call(alone, method, [...params, hash]);
    assert.equal(error?.code, -32052);
    assert.equal(await charged(alone), 0);
    const both = await start(t, { ...upstream, proof: "require" }, [lie, () => {}]);
    const read = await call(both, method, [...params, hash]);
    assert.deepEqual(read.result, result);
  });

test("a node with a wrong proof is left, and the evidence is kept", async (t) => {
  const liar: Lie = (method) => (method === "state_getReadProof" ? { proof: [] } : undefined);
  const setup = await start(t, upstream, [liar, () => {}]);
  const { gateway, chain } = setup;
  const unused = async (): Promise<string> =>
    await (await fetch(`${gateway.adminUrl}/readyz`)).text();
  // Reads of different keys, because the node that answers first can be either one.
  for (let at = 0; !(await unused()).includes("wrong proof"); at++) {
    assert.ok(at < 40);
    const read = await call(setup, "state_getStorage", [keyAt(at), chain.at(8).hash]);
    assert.equal(read.result, valueAt(at % 40));
  }
  assert.ok((await unused()).includes(`wrong proofs of ${new URL(setup.urls[0] ?? "").host}`));
  const folder = join(gateway.folder, "data", "wrong-proofs");
  await until(async () => (await readdir(folder)).length > 0);
  const [name = ""] = await readdir(folder);
  const evidence = JSON.parse(await readFile(join(folder, name), "utf8")) as Record<
    string,
    unknown
  >;
  assert.equal(evidence["block"], chain.at(8).hash);
  assert.equal(evidence["reason"], "a node of the trie is missing");
  assert.deepEqual((evidence["calls"] as unknown[]).at(-1), {
    method: "state_getReadProof",
    params: [[keyAt(0)], chain.at(8).hash],
    answer: { proof: [] },
  });
});

test("what a node has answered before a wrong proof does not stay in the cache", async (t) => {
  const lied: string[] = [];
  const liar: Lie = (method) => {
    if (method === "state_getStorage") {
      lied.push(method);
      return "0xbad0";
    }
    return method === "state_getReadProof" ? { proof: [] } : undefined;
  };
  const setup = await start(t, upstream, [liar]);
  const params = [keyAt(3), setup.chain.at(8).hash];
  const unproved = async (): Promise<unknown> =>
    (await call(setup, "state_getStorage", params, "off")).result;
  assert.equal(await unproved(), "0xbad0");
  lied.length = 0;
  assert.equal(await unproved(), "0xbad0");
  assert.equal(lied.length, 0);
  await call(setup, "state_getStorage", [keyAt(4), params[1]], "require");
  await unproved();
  assert.equal(lied.length, 1);
});

test("a read whose path in the trie is known is answered without the node", async (t) => {
  let proofs = 0;
  const setup = await start(t, upstream, [
    (method) => void (method.endsWith("ReadProof") && proofs++),
  ]);
  // The blocks have the same state.
  const readAll = async (number: number): Promise<void> => {
    const { hash } = setup.chain.at(number);
    for (const [method, params, result] of stateCases) {
      const read = await call(setup, method, [...params, hash]);
      assert.deepEqual([read.result, read.error], [result, undefined], method);
      assert.equal(read.proof, `finalized; block=${hash}; root=${root}`);
    }
  };
  await readAll(8);
  const before = proofs;
  assert.ok(before > 5);
  await readAll(7);
  assert.equal(proofs, before);
});
