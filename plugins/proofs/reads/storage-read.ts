/** Reads a value of the state with its proof. */
import { isObject, parseJson } from "sluice-gateway/toolkit";
import { headerOf, NodeError, type HeadNode } from "../proofs/node.ts";
import { bytesOf } from "../proofs/scale.ts";
import { ProofError, TrieProof } from "../trie/read-proof.ts";

/** A call of `state_getStorage`. */
export interface StorageRead {
  readonly key: Buffer;
  /** In lower case. Undefined if the call names no block. */
  readonly hash: string | undefined;
}

export interface ProvedValue {
  /** Null if the state does not contain the key. */
  readonly value: Uint8Array | null;
  readonly number: number;
  readonly stateRoot: string;
}

/** Maximum size of all nodes of a proof. Hashing them takes about 0.2 seconds. */
const maxProofBytes = 4 * 1_048_576;

/** Reads the params of the call. Undefined if a node would not accept them. */
export function storageReadOf(params: string): StorageRead | undefined {
  const [keyText, hash, ...more] = listOf(params);
  const key = bytesOf(keyText);
  if (key === undefined || more.length > 0) return undefined;
  if (hash === undefined || hash === null) return { key, hash: undefined };
  const isHash = typeof hash === "string" && bytesOf(hash)?.length === 32;
  return isHash ? { key, hash: hash.toLowerCase() } : undefined;
}

function listOf(params: string): readonly unknown[] {
  try {
    const list = parseJson(params);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** Throws a NodeError if the node does not prove the value. */
export async function readStorage(node: HeadNode, key: Buffer, hash: string): Promise<ProvedValue> {
  const { number, stateRoot } = await headerOf(node, hash);
  const answer = await node.call("state_getReadProof", [[`0x${key.toString("hex")}`], hash]);
  const nodes = nodesOf(answer);
  if (nodes === undefined) throw new NodeError("the node sent no proof");
  try {
    const value = new TrieProof(nodes).value(bytesOf(stateRoot) ?? Buffer.alloc(0), key);
    return { value, number, stateRoot };
  } catch (error) {
    if (error instanceof ProofError) throw new NodeError(error.message, true);
    throw error;
  }
}

function nodesOf(answer: unknown): Buffer[] | undefined {
  const list = isObject(answer) ? answer["proof"] : undefined;
  if (!Array.isArray(list)) return undefined;
  const nodes = list.map(bytesOf).filter((node) => node !== undefined);
  const bytes = nodes.reduce((sum, { length }) => sum + length, 0);
  return nodes.length === list.length && bytes <= maxProofBytes ? nodes : undefined;
}
