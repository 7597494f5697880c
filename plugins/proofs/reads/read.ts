/** A call whose answer can be proved. */
import type { Header } from "../proofs/header.ts";
import type { HeadNode } from "../proofs/node.ts";
import type { KeptNodes } from "../trie/kept-nodes.ts";

export interface ProvableRead {
  /** Hash (in lower case) or number of the block. Undefined if the call names none. */
  readonly block: string | number | undefined;
  /** Throws a NodeError if the node does not prove its answer, an UnprovableError if no node can. */
  readonly run: (source: Source) => Promise<ProvedResult> | ProvedResult;
}

/** Where a read gets its answer and its proof. */
export interface Source {
  readonly node: HeadNode;
  readonly hash: string;
  /** The nodes of tries that are known. Undefined to ask the node for all. */
  readonly kept?: KeptNodes | undefined;
  /** Returns the header with this hash. Throws a NodeError. */
  readonly header: () => Promise<Header>;
}

export interface ProvedResult {
  /** JSON text. */
  readonly result: string;
  /** The root against which it was proved. Undefined if the hash of the block alone proves it. */
  readonly root?: string;
  /** The nodes of the trie that prove it. */
  readonly nodes?: readonly Uint8Array[];
}

/** An answer for which there is no proof. The message is the reason. */
export class UnprovableError extends Error {}

/** Reads a call, whose params are JSON text. The params are those of a node. Throws a ParamsError. */
export type ReadCall = (params: string) => ProvableRead;
