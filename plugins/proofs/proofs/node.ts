import { headerOfJson, readHeader, type Header } from "./header.ts";
import { readJustification, type Justification } from "./justification.ts";
import { bytesOf, hexOf, readScale, ScaleReader } from "./scale.ts";

export interface HeadNode {
  /** Host and port. */
  readonly name: string;
  /** Rejects with a NodeError, whose message has no text of the node. */
  readonly call: (method: string, params: readonly unknown[]) => Promise<unknown>;
}

export class NodeError extends Error {
  /** True if the answer contradicts itself or what is proved. */
  readonly isProvedWrong: boolean;

  constructor(message: string, isProvedWrong = false) {
    super(message);
    this.isProvedWrong = isProvedWrong;
  }
}

const methodNotFound = -32601;

export function nodeRefusal(method: string, code: unknown): NodeError {
  return new NodeError(
    code === methodNotFound
      ? `the node does not offer ${method}`
      : `the node answered ${method} with an error`,
  );
}

/** Throws a NodeError. */
export async function headerOf(node: HeadNode, hash: string): Promise<Header> {
  const answer = await node.call("chain_getHeader", [hash]);
  if (answer === null) throw new NodeError("the node does not have a header that it named");
  const header = headerOfJson(answer);
  if (header === undefined) throw new NodeError("the node sent no header");
  if (header.hash !== hash) throw new NodeError("the node sent a header with another hash", true);
  return header;
}

/** Undefined if the node has no such block. Throws a NodeError. */
export async function hashAt(node: HeadNode, number: number): Promise<string | undefined> {
  const hash = await node.call("chain_getBlockHash", [number]);
  return hash === null ? undefined : checkedHash(hash);
}

/** Throws a NodeError. */
export async function finalizedHead(node: HeadNode): Promise<Header> {
  return await headerOf(node, checkedHash(await node.call("chain_getFinalizedHead", [])));
}

/**
 * Returns the proof for the last block of the set that finalized block `number`, or for the last finalized block.
 * Throws a NodeError.
 */
export async function finalityProof(node: HeadNode, number: number): Promise<FinalityProof> {
  const answer = await node.call("grandpa_proveFinality", [number]);
  if (answer === null) throw new NodeError("the node has no justification");
  const bytes = bytesOf(answer);
  const proof = bytes && readScale(bytes, readFinalityProof);
  if (proof === undefined) throw new NodeError("the node sent no finality proof");
  return proof;
}

function checkedHash(value: unknown): string {
  if (typeof value === "string" && /^0x[0-9a-f]{64}$/i.test(value)) return value.toLowerCase();
  throw new NodeError("the node sent no block hash");
}

/** sc-consensus-grandpa, `FinalityProof`: the answer of `grandpa_proveFinality`. */
export interface FinalityProof {
  readonly hash: string;
  readonly justification: Justification;
  /** The headers after the block that was asked for, up to the justified one. */
  readonly headers: readonly Header[];
}

/** Throws a ScaleError. */
export function readFinalityProof(reader: ScaleReader): FinalityProof {
  const hash = hexOf(reader.take(32));
  const justification = readJustification(new ScaleReader(reader.prefixed()));
  return { hash, justification, headers: reader.list(98, readHeader) };
}
