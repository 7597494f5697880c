import type { Header } from "../proofs/header.ts";
import type { HeadNode } from "../proofs/node.ts";
import type { KeptNodes } from "../trie/kept-nodes.ts";

export interface ProvableRead {
  /** Hash (in lower case) or number. Undefined if the call names no block. */
  readonly block: string | number | undefined;
  /** Throws a NodeError if the node does not prove its answer, an UnprovableError if no node can. */
  readonly run: (source: Source) => Promise<ProvedResult> | ProvedResult;
}

export interface Source {
  readonly node: HeadNode;
  readonly hash: string;
  /** The nodes of tries that are known. Undefined to ask the node for all. */
  readonly kept?: KeptNodes | undefined;
  /** Throws a NodeError. */
  readonly header: () => Promise<Header>;
}

export interface ProvedResult {
  /** JSON text. */
  readonly result: string;
  /** Undefined if the hash of the block alone proves the result. */
  readonly root?: string;
  readonly nodes?: readonly Uint8Array[];
}

/** An answer for which there is no proof. The message is the reason. */
export class UnprovableError extends Error {}

/** `params`: JSON text. Throws a ParamsError. */
export type ReadCall = (params: string) => ProvableRead;
