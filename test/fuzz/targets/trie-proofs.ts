/** Proofs of a trie whose nodes were damaged: a read is refused, or it gives what the whole trie has. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { ProofError, TrieProof } from "../../../plugins/proofs/trie/read-proof.ts";
import { trieRoot, type Layout } from "../../../plugins/proofs/trie/trie-root.ts";
import { mutantsOf } from "../mutants.ts";
import type { FuzzTarget } from "../target.ts";

const all = { prefix: new Uint8Array(0), limit: 100 };

export const trieProofs: FuzzTarget = {
  name: "trie-proofs",
  async run(random) {
    for (const layout of ["V0", "V1"] as const) {
      const { root, nodes, keys } = trieIn(layout);
      const whole = new TrieProof(nodes);
      const damaged = fc.tuple(...nodes.map((node) => mutantsOf(fc.constant(node), 1)));
      await random.check(`damaged nodes in layout ${layout}`, damaged, 100, (mutants) => {
        const proof = new TrieProof(mutants.map((mutant) => Uint8Array.from(mutant)));
        for (const key of keys) assertSame(() => proof.value(root, key), whole.value(root, key));
        assertSame(() => proof.keys(root, all), whole.keys(root, all));
      });
    }
    const nodes = fc.array(mutantsOf(fc.constantFrom(...trieIn("V1").nodes), 4), { minLength: 1 });
    await random.check("made-up nodes", nodes, 200, (made) => {
      const proof = new TrieProof(made);
      const [root = assert.fail()] = made;
      for (const reference of [root, root.subarray(0, 32)]) {
        for (const key of trieIn("V1").keys) allowed(() => proof.value(reference, key));
        allowed(() => proof.keys(reference, all));
      }
    });
  },
};

function trieIn(layout: Layout): {
  readonly root: Uint8Array;
  readonly nodes: readonly Uint8Array[];
  readonly keys: readonly Uint8Array[];
} {
  const keys = ["", "a", "ab", "abc", "b".repeat(40), `${"b".repeat(40)}c`, "zz"].map((each) =>
    Buffer.from(each),
  );
  const nodes: Uint8Array[] = [];
  const entries = keys.slice(1).map((key, at) => [key, new Uint8Array(at * 20).fill(at)] as const);
  return { root: trieRoot(entries, layout, (node) => nodes.push(node)), nodes, keys };
}

function assertSame(read: () => unknown, expected: unknown): void {
  const found = allowed(read);
  if (found !== "refused") assert.deepEqual(found, expected);
}

function allowed(read: () => unknown): unknown {
  try {
    return read();
  } catch (error) {
    assert.ok(error instanceof ProofError, String(error));
    return "refused";
  }
}
