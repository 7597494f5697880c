/** The heads that clients have been sent. After a move, the headers in between are read from the new node. */
import { createHash } from "node:crypto";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { Accepted, HeaderSource, NotificationState } from "./notification-state.ts";

/** Maximum number of missed blocks that are fetched for clients. */
const maxGap = 256;
/**
 * Maximum distance, in blocks, of a head above the best block of the last probe. A head that is too high would stop the
 * heads of all clients until the chain has reached it, even after a move to an honest node.
 */
const maxAhead = 16;
/** The same for a head that directly follows the last one, because a chain can have many blocks between two probes. */
const maxAheadInSequence = 256;
/** Number of heads that are remembered, to recognise repeated ones. */
const maxRemembered = 1024;

interface Head {
  readonly number: number;
  readonly parentHash: string;
  /** Equal for equal blocks. The notification has no hash of the block, which depends on the chain's hasher. */
  readonly identity: string;
  readonly text: string;
}

/**
 * The kinds of heads in a node's notifications:
 *
 * - `new`: the best block whenever it changes. A reorganization can leave out blocks.
 * - `all`: every block that the node imports, also those of forks.
 * - `finalized`: the finalized block, whose number only increases.
 */
export type HeadKind = "new" | "all" | "finalized";

export class HeadState implements NotificationState {
  current: string | undefined;
  readonly #kind: HeadKind;
  #first = -1;
  #highest = -1;
  /** True until a node after a move has sent a head that is new to the clients. */
  #hasMoved = false;
  /** Number of the highest head of this node. Undefined before its first one. */
  #ofNode: number | undefined;
  /** Number of nodes in a row whose first head was too far ahead. */
  #gaps = 0;
  readonly #sent = new Set<string>();

  constructor(kind: HeadKind) {
    this.#kind = kind;
  }

  get height(): number | undefined {
    return this.#ofNode;
  }

  moved(): void {
    this.#hasMoved = true;
    this.#ofNode = undefined;
  }

  async accept(result: string, source: HeaderSource): Promise<Accepted> {
    const head = readHead(result);
    if (head === undefined) return "invalid";
    if (!this.#isPlausible(head, source)) return "invalid";
    const isFirst = this.#ofNode === undefined;
    this.#ofNode = Math.max(this.#ofNode ?? head.number, head.number);
    if (this.#sent.has(head.identity)) return [];
    if (this.#highest < 0) return this.#send([head]);
    const mustIncrease = this.#kind === "finalized" || (this.#kind === "new" && this.#hasMoved);
    if (mustIncrease && head.number <= this.#highest) return [];
    if (!this.#hasMoved) return this.#send([head]);
    // One node can lie about its head, so a second node must confirm it.
    if (head.number - this.#highest - 1 > maxGap)
      return isFirst && this.#gaps++ > 0 ? "gap" : "invalid";
    const missed = await this.#missedBefore(head, source);
    return missed === undefined ? "invalid" : this.#send([...missed, head]);
  }

  /** Returns true for every head before the first probe, when nothing is known about the chain. */
  #isPlausible({ number }: Head, { best = number }: HeaderSource): boolean {
    const isNext = this.#ofNode !== undefined && number === this.#ofNode + 1;
    return number <= best + (isNext ? maxAheadInSequence : maxAhead);
  }

  #send(heads: readonly Head[]): Accepted {
    this.#hasMoved = false;
    this.#gaps = 0;
    if (this.#first < 0) this.#first = heads[0]?.number ?? -1;
    for (const { identity, number, text } of heads) {
      this.#sent.add(identity);
      this.#highest = Math.max(this.#highest, number);
      this.current = text;
    }
    for (const oldest of this.#sent) {
      if (this.#sent.size <= maxRemembered) break;
      this.#sent.delete(oldest);
    }
    return heads.map(({ text }) => text);
  }

  /**
   * Returns the ancestors of a head that clients have missed, oldest first. Undefined if the node does not have them. For
   * `all`, these are the ancestors down to a block that was sent, because the node may be on a fork.
   */
  async #missedBefore(head: Head, source: HeaderSource): Promise<readonly Head[] | undefined> {
    const lowest =
      this.#kind === "all" ? Math.max(this.#first, head.number - maxGap) : this.#highest + 1;
    const missed: Head[] = [];
    let child = head;
    while (child.number > lowest) {
      const text = await source.header(child.parentHash);
      const parent = text === undefined ? undefined : readHead(text);
      if (parent?.number !== child.number - 1) return undefined;
      if (this.#sent.has(parent.identity)) break;
      missed.unshift(parent);
      child = parent;
    }
    return missed;
  }
}

const hex = /^0x[0-9a-f]*$/i;

function readHead(text: string): Head | undefined {
  const header = parseOrUndefined(text);
  if (!isObject(header)) return undefined;
  const { number, parentHash, stateRoot, extrinsicsRoot, digest } = header;
  const logs: unknown = isObject(digest) ? digest["logs"] : undefined;
  const parts: readonly unknown[] = [number, parentHash, stateRoot, extrinsicsRoot];
  const all = Array.isArray(logs) ? parts.concat(logs) : parts;
  if (!all.every((part) => typeof part === "string" && hex.test(part))) return undefined;
  const value = Number(number);
  if (!Number.isSafeInteger(value)) return undefined;
  const identity = createHash("sha256").update(all.join().toLowerCase()).digest("base64");
  return { number: value, parentHash: String(parentHash), identity, text };
}
