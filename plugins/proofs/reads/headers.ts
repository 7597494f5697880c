/** The headers that were read last. Their hashes prove them, so they stay valid. */
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import type { Header } from "../proofs/header.ts";
import { headerOf, type HeadNode } from "../proofs/node.ts";

const maxKept = 1_024;

export class Headers {
  readonly #kept = new BoundedMap<string, Header>(maxKept);

  /** `hash`: in lower case. Throws a NodeError. */
  async get(node: HeadNode, hash: string): Promise<Header> {
    const kept = this.#kept.get(hash);
    if (kept !== undefined) return kept;
    // The change of the authority set can be large.
    const header = { ...(await headerOf(node, hash)), change: undefined };
    this.#kept.set(hash, header);
    return header;
  }
}
