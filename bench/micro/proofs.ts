/**
 * Measures the CPU time of proofs: a value of a state with 20,000 accounts, and a justification of 600 validators. The
 * nodes of the trie come from memory, so reading JSON and asking nodes are not included.
 *
 *   node bench/micro/proofs.ts
 */
import { randomBytes } from "node:crypto";
import { FinalizedChain } from "../../plugins/proofs/proofs/finalized-chain.ts";
import { readFinalityProof } from "../../plugins/proofs/proofs/node.ts";
import { bytesOf, ScaleReader } from "../../plugins/proofs/proofs/scale.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { HeldBytes } from "../../src/memory/held-bytes.ts";
import { loadBlake2 } from "../../plugins/proofs/trie/fast-blake2.ts";
import { KeptNodes } from "../../plugins/proofs/trie/kept-nodes.ts";
import { TrieProof } from "../../plugins/proofs/trie/read-proof.ts";
import { trieRoot } from "../../plugins/proofs/trie/trie-root.ts";
import { TestChain, voters } from "../../test/plugins/proofs/test-chain.ts";

const rounds = 7;
const accounts = 20_000;
const reads = 3_000;
const validators = 600;
const justifications = 20;
/** Time between two finalized heads of a Substrate chain. */
const blockSeconds = 6;

/** Returns the smallest CPU time per run of all threads in microseconds. Noise only adds. */
async function cpuOf(runs: number, work: () => unknown): Promise<number> {
  let best = Infinity;
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    best = Math.min(best, (user + system) / runs);
  }
  return best;
}

await loadBlake2();
const memory = new HeldBytes(2 ** 31, createMetrics());
const map = randomBytes(32);
const entries = Array.from(
  { length: accounts },
  () => [Buffer.concat([map, randomBytes(48)]), randomBytes(80)] as const,
);
const nodes: Uint8Array[] = [];
const root = trieRoot(entries, "V1", (node) => nodes.push(node));
const all = new TrieProof(nodes);
const proofs = entries.slice(0, reads).map(([key]) => {
  all.used.clear();
  all.value(root, key);
  return { key, nodes: [...all.used.values()] };
});

const cold = await cpuOf(reads, () => {
  for (const proof of proofs) new TrieProof(proof.nodes).value(root, proof.key);
});
const kept = new KeptNodes(2 ** 30, (onRefused) => memory.hold("kept", "result", onRefused));
const half = reads / 2;
for (const { key, nodes: own } of proofs.slice(0, half)) {
  const proof = new TrieProof(own, kept);
  proof.value(root, key);
  for (const [name, node] of proof.used) kept.add(name, node);
}
const upper = await cpuOf(half, () => {
  for (const proof of proofs.slice(half)) new TrieProof(proof.nodes, kept).value(root, proof.key);
});
const whole = await cpuOf(half, () => {
  for (const { key } of proofs.slice(0, half)) new TrieProof([], kept).value(root, key);
});
const bytes = proofs.flatMap((proof) => proof.nodes).reduce((sum, { length }) => sum + length, 0);

const chain = new TestChain(voters(validators)).add({}, 2).finalize();
const proof = bytesOf(chain.prove(1));
if (proof === undefined) throw new Error("no proof");
const finality = await cpuOf(justifications, async () => {
  for (let n = 0; n < justifications; n++) {
    const { justification, headers } = readFinalityProof(new ScaleReader(proof));
    const refusal = await new FinalizedChain(chain.checkpoint(1)).extend(justification, headers);
    if (refusal !== undefined) throw new Error(refusal);
  }
});

console.log(`| proof | CPU |\n| --- | --- |`);
console.log(`| a value, no node known | ${cold.toFixed(0)} µs |`);
console.log(`| a value, upper nodes known | ${upper.toFixed(0)} µs |`);
console.log(`| a value, whole path known | ${whole.toFixed(0)} µs |`);
console.log(
  `| a justification of ${validators} validators | ${(finality / 1_000).toFixed(1)} ms |\n`,
);
console.log(`A proof of a value has ${(bytes / reads).toFixed(0)} bytes.`);
const share = (finality / 1e6 / blockSeconds) * 100;
console.log(`A justification every ${blockSeconds} s takes ${share.toFixed(1)} % of a core.`);
