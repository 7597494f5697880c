/** The finalized chain, as far as justifications have proved it, beginning with a checkpoint of the operator. */
import type { Authority, Header } from "./header.ts";
import { authoritySet, refusalOf, type AuthoritySet, type Justification } from "./justification.ts";
import { finalityProof, headerOf, NodeError, type HeadNode } from "./node.ts";
import { ProvedHashes, type FinalityOfBlock, type ProvedChain } from "./proved-chain.ts";

/** `upstreams.NAME.checkpoint`: the set that finalizes the block after `number` (decisions.md section 18). */
export interface Checkpoint {
  readonly number: number;
  readonly hash: string;
  readonly setId: number;
  /** Public keys with their weights. */
  readonly authorities: readonly (readonly [string, number])[];
}

/** Maximum number of justifications that are kept, and of blocks that one of them finalizes. */
const maxJustifications = 16;
const maxJustifiedBlocks = 64;

/** Number of blocks from which the headers in between are skipped if the set has not changed. */
const skipBlocks = 1_024;
const maxSets = 1_024;

export class FinalizedChain implements ProvedChain {
  number: number;
  hash: string;
  ended: string | undefined;
  readonly #start: number;
  #set: AuthoritySet;
  #authorities: readonly Authority[];
  /** The next set, and the last block of the current one. */
  #next: { readonly at: number; readonly authorities: readonly Authority[] } | undefined;
  readonly #proved = new ProvedHashes();
  readonly #justified: {
    readonly justification: Uint8Array;
    readonly headers: readonly Pick<Header, "hash" | "scale">[];
  }[] = [];

  /** Throws an Error if the authorities of the checkpoint have no weight. */
  constructor({ number, hash, setId, authorities }: Checkpoint) {
    this.number = this.#start = number;
    this.hash = hash.toLowerCase();
    this.#authorities = authorities.map(([id, weight]) => ({
      id: id.toLowerCase(),
      weight: BigInt(weight),
    }));
    const set = authoritySet(BigInt(setId), this.#authorities);
    if (set === undefined) throw new Error("the authorities of the checkpoint have no weight");
    this.#set = set;
    this.#proved.add(number, this.hash);
  }

  get setId(): bigint {
    return this.#set.id;
  }

  get isConfirmed(): boolean {
    return this.number > this.#start;
  }

  get checkpoint(): Checkpoint {
    const { number, hash } = this;
    const authorities = this.#authorities.map(({ id, weight }) => [id, Number(weight)] as const);
    return { number, hash, setId: Number(this.setId), authorities };
  }

  hashAt(number: number): string | undefined {
    return this.#proved.at(number);
  }

  has(hash: string): boolean {
    return this.#proved.has(hash);
  }

  proofOf(hash: string): FinalityOfBlock | undefined {
    for (const { justification, headers } of this.#justified) {
      const at = headers.findIndex((header) => header.hash === hash);
      if (at >= 0) return { justification, headers: headers.slice(at).map(({ scale }) => scale) };
    }
    return undefined;
  }

  async follow(node: HeadNode, head: number): Promise<void> {
    if (head - this.number > skipBlocks) await this.#skip(node, head);
    for (let sets = 0; this.number < head && sets < maxSets; sets++) {
      if (this.ended !== undefined) throw new NodeError(this.ended);
      const { hash, justification, headers } = await finalityProof(node, this.number + 1);
      if (justification.target.number <= this.number)
        throw new NodeError("the node's justification is older than its finalized head");
      // The proof does not contain the header of the block that was asked for.
      const first = await headerOf(node, headers[0]?.parentHash ?? hash);
      const refusal = await this.extend(justification, [first, ...headers]);
      if (refusal !== undefined)
        throw new NodeError(refusal, this.isConfirmed && this.ended === undefined);
    }
  }

  /** Continues at the node's head if the set that is known has finalized it. Throws a NodeError. */
  async #skip(node: HeadNode, head: number): Promise<void> {
    const { justification } = await finalityProof(node, head);
    const { hash, number } = justification.target;
    if (number - this.number > skipBlocks)
      await this.skipTo(justification, await headerOf(node, hash));
  }

  /** Returns the reason if the set has not finalized these blocks. `headers`: see `FinalityOfBlock`. */
  async refusalOf(
    justification: Justification,
    headers: readonly Header[],
  ): Promise<string | undefined> {
    const refusal = linkFault(justification, headers) ?? this.#setFault(headers);
    return refusal ?? this.ended ?? (await refusalOf(justification, this.#set));
  }

  /** `headers`: every header after the highest proved block. Returns the reason if this proves nothing. */
  async extend(
    justification: Justification,
    headers: readonly Header[],
  ): Promise<string | undefined> {
    const found = await this.refusalOf(justification, headers);
    if (found !== undefined) return found;
    const [first] = headers;
    if (first?.number !== this.number + 1) return "the headers do not begin after the proved block";
    if (first.parentHash !== this.hash) {
      this.ended = this.isConfirmed
        ? "the authorities have finalized two chains"
        : "the finalized chain contradicts the checkpoint";
      return this.ended;
    }
    for (const header of headers) this.#accept(header);
    this.#keepJustification(justification, headers);
    return undefined;
  }

  /**
   * Continues without the headers before the justified block. A change that one of those has scheduled for a block
   * after it stays unknown, so that the trust then ends with the set.
   */
  async skipTo(justification: Justification, header: Header): Promise<string | undefined> {
    const found = await this.refusalOf(justification, [header]);
    if (found !== undefined) return found;
    this.#proved.clear();
    this.#accept(header);
    this.#keepJustification(justification, [header]);
    return undefined;
  }

  /** A set finalizes nothing after its last block. */
  #setFault(headers: readonly Header[]): string | undefined {
    let next = this.#next;
    for (const header of headers) {
      if (next !== undefined && header.number > next.at)
        return "the set that has voted was replaced before the justified block";
      next ??= nextSet(header);
    }
    return undefined;
  }

  #keepJustification({ scale }: Justification, headers: readonly Header[]): void {
    if (headers.length > maxJustifiedBlocks) return;
    this.#justified.unshift({
      justification: scale,
      headers: headers.map((header) => ({ hash: header.hash, scale: header.scale })),
    });
    this.#justified.length = Math.min(this.#justified.length, maxJustifications);
  }

  #accept(header: Header): void {
    this.number = header.number;
    this.hash = header.hash;
    this.#proved.add(this.number, this.hash);
    if (header.isForced) this.ended = `block ${header.number} forces another authority set`;
    this.#next ??= nextSet(header);
    if (this.#next?.at !== header.number) return;
    const { authorities } = this.#next;
    this.#next = undefined;
    const set = authoritySet(this.setId + 1n, authorities);
    if (set === undefined) {
      this.ended ??= `block ${header.number} schedules an authority set without weight`;
      return;
    }
    this.#set = set;
    this.#authorities = authorities;
  }
}

function nextSet({
  number,
  change,
}: Header): { at: number; authorities: readonly Authority[] } | undefined {
  return change && { at: number + change.delay, authorities: change.authorities };
}

/** Checks that each header is the parent of the next one, and that the last one is justified. */
function linkFault({ target }: Justification, headers: readonly Header[]): string | undefined {
  const isLinked = headers.every(
    ({ number, parentHash }, index) =>
      index === 0 ||
      (parentHash === headers[index - 1]?.hash && number === (headers[index - 1]?.number ?? 0) + 1),
  );
  const last = headers.at(-1);
  return isLinked && last?.hash === target.hash && last.number === target.number
    ? undefined
    : "the headers do not lead to the justified block";
}
