import { isObject } from "sluice-gateway/internal/toolkit";
import { NodeError, type HeadNode } from "../proofs/node.ts";
import { bytesOf, hexOf } from "../proofs/scale.ts";
import { hashBytes } from "../trie/node.ts";
import { nameOf } from "../trie/kept-nodes.ts";
import { hashOf } from "../trie/blake2.ts";
import { childTries, ProofError, TrieProof, type KeyRange } from "../trie/read-proof.ts";
import { Params, ParamsError } from "./params.ts";
import { UnprovableError, type ProvedResult, type ReadCall, type Source } from "./read.ts";

const maxProofBytes = 4 * 1_048_576;

/** A trie of a block's state. Its methods throw a ProofError if the nodes of the proof do not suffice. */
interface StateTrie {
  value(key: Uint8Array): Uint8Array | null;
  keys(range: KeyRange): Uint8Array[];
}

interface StateRead {
  /** The key of the child trie in the main trie. Undefined for the main trie. */
  readonly child?: Uint8Array;
  readonly keys: (source: Source) => Promise<readonly Uint8Array[]> | readonly Uint8Array[];
  readonly answer: (trie: StateTrie, hash: string) => string;
}

const storage = (answerOf: ValueAnswer): ReadCall => readValue(undefined, answerOf);
const childStorage = (answerOf: ValueAnswer): ReadCall => readValue(0, answerOf);

export const stateReads: Readonly<Record<string, ReadCall>> = {
  state_getStorage: storage(textOf),
  state_getStorageAt: storage(textOf),
  state_getStorageHash: storage(hashText),
  state_getStorageHashAt: storage(hashText),
  state_getStorageSize: storage(sizeOf),
  state_getKeysPaged: readPage(undefined),
  state_getKeysPagedAt: readPage(undefined),
  state_queryStorageAt(text) {
    const params = new Params(text, 2);
    const unique = new Map(params.bytesList(0).map((key) => [hexOf(key), key]));
    const answer: StateRead["answer"] = (trie, block) => {
      const changes = Array.from(unique, ([name, key]) => `["${name}",${textOf(trie.value(key))}]`);
      return changes.length === 0 ? "[]" : `[{"block":"${block}","changes":[${changes.join()}]}]`;
    };
    return read(params.hash(1), { keys: () => [...unique.values()], answer });
  },
  childstate_getStorage: childStorage(textOf),
  childstate_getStorageHash: childStorage(hashText),
  childstate_getStorageSize: childStorage((value) => `${value?.length ?? null}`),
  childstate_getKeysPaged: readPage(0),
  childstate_getKeysPagedAt: readPage(0),
  childstate_getStorageEntries(text) {
    const params = new Params(text, 3);
    const keys = params.bytesList(1);
    return read(params.hash(2), {
      child: childOf(params),
      keys: () => keys,
      answer: (trie) => `[${keys.map((key) => textOf(trie.value(key))).join()}]`,
    });
  },
};

type ValueAnswer = (value: Uint8Array | null, trie: StateTrie, key: Uint8Array) => string;

/** `child`: index of the param that names the child trie. */
function readValue(child: 0 | undefined, answerOf: ValueAnswer): ReadCall {
  return (text) => {
    const first = child === undefined ? 0 : 1;
    const params = new Params(text, first + 2);
    const key = params.bytes(first);
    return read(params.hash(first + 1), {
      ...(child !== undefined && { child: childOf(params) }),
      keys: () => [key],
      answer: (trie) => answerOf(trie.value(key), trie, key),
    });
  };
}

/**
 * The node names the keys of a page. Their proof contains each node of the trie between the first and the last one, so
 * it shows whether there are others.
 */
function readPage(child: 0 | undefined): ReadCall {
  return (text) => {
    const first = child === undefined ? 0 : 1;
    const params = new Params(text, first + 4);
    const prefix = params.optionalBytes(first) ?? new Uint8Array(0);
    const range = {
      prefix,
      limit: params.count(first + 1),
      after: params.optionalBytes(first + 2),
    };
    const method = child === undefined ? "state_getKeysPaged" : "childstate_getKeysPaged";
    const childKey = child === undefined ? undefined : childOf(params);
    return read(params.hash(first + 3), {
      ...(childKey !== undefined && { child: childKey }),
      async keys({ node, hash }) {
        const named = childKey === undefined ? [] : [hexOf(childKey)];
        const after = range.after === undefined ? null : hexOf(range.after);
        const page = await node.call(method, [...named, hexOf(prefix), range.limit, after, hash]);
        const keys = Array.isArray(page) ? page.slice(0, range.limit).map(bytesOf) : [undefined];
        if (!keys.every((key) => key !== undefined)) throw new NodeError("the node sent no keys");
        return [prefix, range.after ?? prefix, ...keys];
      },
      answer: (trie) =>
        `[${trie
          .keys(range)
          .map((key) => `"${hexOf(key)}"`)
          .join()}]`,
    });
  };
}

function childOf(params: Params): Uint8Array {
  const key = params.bytes(0);
  if (!hexOf(key).startsWith(hexOf(childTries))) throw new ParamsError();
  return key;
}

function read(block: string | undefined, state: StateRead): ReturnType<ReadCall> {
  return { block, run: (source) => readState(source, state) };
}

async function readState(
  source: Source,
  { child, keys, answer }: StateRead,
): Promise<ProvedResult> {
  const { node, hash, kept } = source;
  const { stateRoot } = await source.header();
  const root = bytesOf(stateRoot) ?? new Uint8Array(0);
  const readFrom = (proof: TrieProof): ProvedResult => {
    const result = answer(trieIn(proof, root, child), hash);
    for (const [name, bytes] of proof.used) kept?.add(name, bytes);
    return { result, root: stateRoot, nodes: [...proof.used.values()] };
  };
  if (kept?.get(nameOf(root)) !== undefined) {
    try {
      return readFrom(new TrieProof([], kept));
    } catch (error) {
      if (!(error instanceof ProofError)) throw error;
    }
  }
  const nodes = await nodesOf(node, hash, await keys(source), child);
  try {
    return readFrom(new TrieProof(nodes, kept));
  } catch (error) {
    if (error instanceof ProofError) throw new NodeError(error.message, true);
    throw error;
  }
}

/** Throws a ProofError. */
function trieIn(proof: TrieProof, stateRoot: Uint8Array, child: Uint8Array | undefined): StateTrie {
  const root = child === undefined ? stateRoot : proof.value(stateRoot, child);
  if (root === null) return { value: () => null, keys: () => [] };
  if (root.length !== hashBytes) throw new ProofError("the root of a child trie is not a hash");
  return { value: (key) => proof.value(root, key), keys: (range) => proof.keys(root, range) };
}

async function nodesOf(
  node: HeadNode,
  hash: string,
  keys: readonly Uint8Array[],
  child: Uint8Array | undefined,
): Promise<readonly Uint8Array[]> {
  const names = [...new Set(keys.map(hexOf))];
  const answer =
    child === undefined
      ? await node.call("state_getReadProof", [names, hash])
      : await node.call("state_getChildReadProof", [hexOf(child), names, hash]);
  const list = isObject(answer) ? answer["proof"] : undefined;
  const nodes = Array.isArray(list) ? list.map(bytesOf) : [undefined];
  if (!nodes.every((each) => each !== undefined)) throw new NodeError("the node sent no proof");
  const bytes = nodes.reduce((sum, { length }) => sum + length, 0);
  if (bytes > maxProofBytes) throw new UnprovableError("the proof is too large");
  return nodes;
}

function textOf(value: Uint8Array | null): string {
  return value === null ? "null" : `"${hexOf(value)}"`;
}

function hashText(value: Uint8Array | null): string {
  return textOf(value && hashOf(value));
}

/** As in sc-rpc, the size of a missing value is that of all values whose keys begin with its key. */
function sizeOf(value: Uint8Array | null, trie: StateTrie, key: Uint8Array): string {
  if (value !== null) return `${value.length}`;
  try {
    if (trie.keys({ prefix: key, limit: 1 }).length === 0) return "null";
  } catch (error) {
    if (!(error instanceof ProofError)) throw error;
  }
  throw new UnprovableError("the sum of several sizes cannot be proved");
}
