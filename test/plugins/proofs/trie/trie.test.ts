/** The reader of trie proofs and the roots of tries, judged by sp-trie (in the executor of chopsticks). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { HeldBytes } from "../../../../src/memory/held-bytes.ts";
import { calculate_state_root, decode_proof } from "@acala-network/chopsticks-executor";
import * as fc from "fast-check";
import { hashOf } from "../../../../plugins/proofs/trie/blake2.ts";
import { ProofError, TrieProof } from "../../../../plugins/proofs/trie/read-proof.ts";
import { KeptNodes } from "../../../../plugins/proofs/trie/kept-nodes.ts";
import { orderedRoot, trieRoot } from "../../../../plugins/proofs/trie/trie-root.ts";
import { bytesOf, hexOf } from "../../../../plugins/proofs/proofs/scale.ts";
import { registry } from "../test-chain.ts";
import { relayNodes } from "./relay-proof.ts";

type Entries = readonly (readonly [Uint8Array, Uint8Array])[];

/** Few different bytes make long paths and branches with values; some values are longer than layout V1 keeps inline. */
const key = fc.oneof(
  fc.array(fc.constantFrom(0, 1, 16, 255), { maxLength: 6 }).map((bytes) => Uint8Array.from(bytes)),
  fc.uint8Array({ maxLength: 40 }),
  fc.nat(600).map((length) => new Uint8Array(length)),
);
const value = fc.oneof(
  fc.uint8Array({ maxLength: 40 }),
  fc.uint8Array({ minLength: 100, maxLength: 200 }),
);
const state: fc.Arbitrary<Entries> = fc.uniqueArray(fc.tuple(key, value), {
  selector: ([each]) => hexOf(each),
  maxLength: 40,
});
const layout = fc.constantFrom("V0", "V1");

interface Trie {
  readonly root: Uint8Array;
  readonly nodes: readonly Uint8Array[];
}

function trieOf(entries: Entries, version: "V0" | "V1"): Trie {
  const nodes: Uint8Array[] = [];
  return { root: trieRoot(entries, version, (node) => nodes.push(node)), nodes };
}

test("the roots of tries are those of sp-trie, which reads their nodes", async () => {
  await fc.assert(
    fc.asyncProperty(state, layout, async (entries, version) => {
      const { root, nodes } = trieOf(entries, version);
      const pairs = entries.map((entry) => entry.map(hexOf));
      assert.equal(hexOf(root), await calculate_state_root(pairs, version === "V0" ? 0 : 1));
      const read = (await decode_proof(hexOf(root), nodes.map(hexOf))) as [string, string][];
      assert.deepEqual(new Map(read), new Map(pairs as [string, string][]));
    }),
    { numRuns: 200 },
  );
});

test("each value and the absence of each other key are proved", () => {
  fc.assert(
    fc.property(state, layout, fc.array(key), (entries, version, others) => {
      const { root, nodes } = trieOf(entries, version);
      const proof = new TrieProof(nodes);
      const values = new Map(entries.map(([each, stored]) => [hexOf(each), stored]));
      for (const each of [...entries.map(([stored]) => stored), ...others]) {
        const read = proof.value(root, each);
        assert.deepEqual(
          read && hexOf(read),
          values.has(hexOf(each)) ? hexOf(values.get(hexOf(each)) ?? each) : null,
        );
      }
    }),
  );
});

test("kept nodes make room for clients, and keep at most half of what all may hold", () => {
  const memory = new HeldBytes(8_000, createMetrics());
  const kept = new KeptNodes(1_000_000, (refused) => memory.hold("kept", "result", refused));
  const addMany = (): void => {
    for (let at = 0; at < 100; at++) kept.add(`node ${at}`, Buffer.alloc(100, at));
  };
  addMany();
  const full = memory.bytesOf("result");
  assert.ok(full > 2_000 && full <= 4_000);
  const client = memory.hold("client", "request");
  assert.ok(client.resize(4_000));
  assert.ok(memory.hold("other client", "request").resize(3_900));
  addMany();
  assert.ok(memory.bytesOf("result") <= 100);
  client[Symbol.dispose]();
  addMany();
  assert.deepEqual(kept.get("node 99"), new Uint8Array(100).fill(99));
});

test("pages of keys are complete", () => {
  const range = fc.record({
    prefix: fc.oneof(key, fc.constant(new Uint8Array(0))),
    after: fc.option(key, { nil: undefined }),
    limit: fc.nat(5),
  });
  fc.assert(
    fc.property(state, layout, range, (entries, version, { prefix, after, limit }) => {
      const { root, nodes } = trieOf(entries, version);
      const wanted = entries
        .map(([each]) => each)
        .filter((each) => Buffer.compare(each.subarray(0, prefix.length), prefix) === 0)
        .filter((each) => after === undefined || Buffer.compare(each, after) > 0)
        .toSorted((a, b) => Buffer.compare(a, b));
      const page = new TrieProof(nodes).keys(root, { prefix, after, limit });
      assert.deepEqual(page.map(hexOf), wanted.slice(0, limit).map(hexOf));
    }),
    { numRuns: 500 },
  );
});

test("a page of keys needs no node outside of its range", () => {
  const entries = Array.from({ length: 200 }, (_, at): [Uint8Array, Uint8Array] => [
    Buffer.from(`key ${String(at).padStart(3, "0")} ${"x".repeat(40)}`),
    Buffer.from(`value ${at}`),
  ]);
  const { root, nodes } = trieOf(entries, "V1");
  const range = { prefix: Buffer.from("key "), after: entries[99]?.[0], limit: 5 };
  const missing = nodes.filter(
    (_, at) =>
      orProofError(() => new TrieProof(nodes.toSpliced(at, 1)).keys(root, range)) === "refused",
  );
  assert.ok(missing.length < 15, `${missing.length} nodes are needed`);
  assert.deepEqual(
    new TrieProof(missing).keys(root, range).map(hexOf),
    entries.slice(100, 105).map(([each]) => hexOf(each)),
  );
});

test("a proof of a real relay chain is read as sp-trie reads it", async () => {
  const proof = new TrieProof(relayNodes.map(bytesFrom));
  // The root is the node that no other node names.
  const roots = relayNodes
    .map(hashed)
    .filter((hash) => !relayNodes.some((node) => bytesFrom(node).includes(hash)));
  const read = await Promise.all(
    roots.map(async (root) => {
      const pairs = (await decode_proof(hexOf(root), relayNodes)) as [string, string][];
      for (const [each, stored] of pairs) {
        const found = proof.value(root, bytesFrom(each));
        assert.equal(found && hexOf(found), stored);
      }
      return pairs.length;
    }),
  );
  assert.deepEqual(read, [13]);
  const [root = assert.fail()] = roots;
  const all = { prefix: new Uint8Array(0), limit: 1_000 };
  assert.throws(() => proof.keys(root, all), ProofError);
});

test("the root of a list is that of a trie of its positions", async () => {
  const lists = fc.array(value, { maxLength: 300 });
  await fc.assert(
    fc.asyncProperty(lists, layout, async (values, version) => {
      const pairs = values.map((each, at) => [
        hexOf(registry.createType("Compact<u32>", at).toU8a()),
        hexOf(each),
      ]);
      const judged = await calculate_state_root(pairs, version === "V0" ? 0 : 1);
      assert.equal(hexOf(orderedRoot(values, version)), judged);
    }),
    { numRuns: 20 },
  );
  // The extrinsics root of the first block of each chain.
  const empty = "0x03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314";
  assert.equal(hexOf(orderedRoot([], "V0")), empty);
});

test("bytes that are no node are refused", () => {
  const wrong = [
    "0x01",
    "0x0000",
    "0x40",
    "0x41f0",
    "0x4004",
    "0x800000",
    "0x8001",
    "0x81f00100",
    "0x410004aaaa",
    "0x80010084",
  ];
  for (const node of wrong) {
    const { root, nodes } = { root: hashed(node), nodes: [bytesFrom(node)] };
    assert.throws(() => new TrieProof(nodes).value(root, Buffer.from("a")), ProofError, node);
  }
});

test("a trie that is deeper than any state is refused", () => {
  const nodes: Uint8Array[] = [];
  let child: Uint8Array = Buffer.from("4000", "hex");
  for (let depth = 0; depth < 20_000; depth++) {
    const reference = child.length < 32 ? child : hashed(hexOf(child));
    if (child.length >= 32) nodes.push(child);
    child = Buffer.concat([Buffer.from([0x80, 1, 0, reference.length * 4]), reference]);
  }
  nodes.push(child);
  const proof = new TrieProof(nodes);
  assert.throws(
    () => proof.keys(hashed(hexOf(child)), { prefix: new Uint8Array(0), limit: 1 }),
    ProofError,
  );
});

function orProofError<T>(read: () => T): T | "refused" {
  try {
    return read();
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return "refused";
  }
}

function hashed(node: string): Uint8Array {
  return hashOf(bytesFrom(node));
}

function bytesFrom(text: string): Buffer {
  return Buffer.from(bytesOf(text) ?? assert.fail(text));
}
