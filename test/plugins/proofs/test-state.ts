/** The state of a test chain. sp-trie, in the executor of chopsticks, says which nodes of the trie each key needs. */
import { decode_proof } from "@acala-network/chopsticks-executor";
import { hexOf } from "../../../plugins/proofs/proofs/scale.ts";
import { trieRoot } from "../../../plugins/proofs/trie/trie-root.ts";

export const childKey = Buffer.from(":child_storage:default:child");

type Entries = ReadonlyMap<string, string>;

interface Trie {
  readonly entries: Entries;
  readonly nodes: readonly string[];
  readonly root: Uint8Array;
  needs?: Promise<Map<string, Set<number>>>;
}

/** In layout V0, sp-trie reads what is left of a trie without one of its nodes. */
function trieOf(entries: Entries): Trie {
  const nodes: string[] = [];
  const pairs = Array.from(entries, (pair) => pair.map((text) => bytes(text)));
  const root = trieRoot(pairs as [Buffer, Buffer][], "V0", (node) => nodes.push(hexOf(node)));
  return { entries, nodes, root };
}

function bytes(text: string): Buffer {
  return Buffer.from(text.slice(2), "hex");
}

export class TestState {
  readonly #child: Trie;
  readonly #main: Trie;

  constructor(main: Entries, child: Entries = new Map()) {
    this.#child = trieOf(child);
    const more = child.size === 0 ? [] : [[hexOf(childKey), hexOf(this.#child.root)] as const];
    this.#main = trieOf(new Map([...main, ...more]));
  }

  get root(): Uint8Array {
    return this.#main.root;
  }

  async answer(method: string, params: readonly unknown[]): Promise<unknown> {
    if (!/^(child)?state_/.test(method)) return undefined;
    if (method === "state_getReadProof") return { proof: await proofOf(this.#main, params[0]) };
    if (method === "state_getChildReadProof") {
      const main = await proofOf(this.#main, [params[0]]);
      return { proof: [...main, ...(await proofOf(this.#child, params[1]))] };
    }
    const isChild = method.startsWith("child");
    const { entries } = isChild ? this.#child : this.#main;
    return page(method, entries, isChild ? params.slice(1) : params);
  }
}

/** The only reads that the gateway asks without a proof are those of keys. Others answer what is not proved. */
function page(method: string, entries: Entries, params: readonly unknown[]): unknown {
  if (!method.includes("getKeysPaged")) return "0x";
  const [prefix, count, after] = params as [string, number, string | null];
  return [...entries.keys()]
    .filter((key) => key.startsWith(prefix) && key > (after ?? ""))
    .toSorted()
    .slice(0, count);
}

/** Returns the nodes that are needed for the keys, or for their neighbours in place of keys without a value. */
async function proofOf(trie: Trie, keys: unknown): Promise<readonly string[]> {
  const sorted = [...trie.entries.keys()].toSorted();
  const wanted = (keys as string[]).flatMap((key) => {
    if (trie.entries.has(key)) return [key];
    const next = sorted.findIndex((each) => each > key);
    return next < 0 ? sorted.slice(-1) : sorted.slice(Math.max(next - 1, 0), next + 1);
  });
  const needs = await (trie.needs ??= needsOf(trie));
  return trie.nodes.filter((_, at) => wanted.some((key) => needs.get(key)?.has(at)));
}

/** Returns the positions of the nodes without which sp-trie does not find a key. */
async function needsOf({ entries, nodes, root }: Trie): Promise<Map<string, Set<number>>> {
  const needs = new Map(Array.from(entries.keys(), (key) => [key, new Set<number>()]));
  for (const at of nodes.keys()) {
    const without = await decode_proof(hexOf(root), nodes.toSpliced(at, 1)).catch(() => []);
    const found = new Set((without as [string, string][]).map(([key]) => key));
    for (const [key, needed] of needs) if (!found.has(key)) needed.add(at);
  }
  return needs;
}
