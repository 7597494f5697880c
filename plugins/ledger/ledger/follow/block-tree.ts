/**
 * The blocks that a follow at the node has reported, which are pinned there. It checks the events of the node, because
 * clients rely on the guarantees of the specification, and it creates the first events of a client that joins later.
 */
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { memberAt } from "../json-part.ts";

/** Number of finalized blocks that new clients get and that stay pinned for them: about one minute. */
const keptFinalized = 10;
const maxFinalized = 4096;
/** Maximum number of blocks that are neither finalized nor pruned. */
const maxLive = 4096;

export interface Block {
  readonly hash: string;
  /** The event `newBlock` as the node sent it. Empty for a block that was finalized before the follow began. */
  readonly event: string;
  readonly parent: string;
  /** The new runtime as JSON text. Undefined if the block has the runtime of its parent. */
  readonly runtime: string | undefined;
  /** Number of users of the block: clients, operations, and the tree itself. */
  holders: number;
  /** True until the block is finalized or pruned. */
  isLive: boolean;
}

/** Effect of an event of the node. `invalid`: it breaks the protocol. `ignored`: it repeats known facts. */
export type TreeChange =
  | { readonly kind: "initialized"; readonly finalized: readonly Block[] }
  | { readonly kind: "newBlock"; readonly block: Block }
  | { readonly kind: "best"; readonly hash: string }
  | {
      readonly kind: "finalized";
      readonly finalized: readonly Block[];
      readonly pruned: readonly Block[];
    }
  | { readonly kind: "ignored" | "invalid" };

const invalid: TreeChange = { kind: "invalid" };
const ignored: TreeChange = { kind: "ignored" };

export interface Replay {
  readonly events: readonly string[];
  readonly blocks: readonly Block[];
  /** Blocks of the tree that the events cannot report, because they do not descend from the finalized block. */
  readonly omitted: ReadonlySet<string>;
}

export class BlockTree {
  readonly #withRuntime: boolean;
  readonly #onUnused: (block: Block) => void;
  readonly #blocks = new Map<string, Block>();
  /** The last finalized blocks in ascending order. The tree holds them. */
  readonly #finalized: Block[] = [];
  /** The live blocks, parents before children. The tree holds them. */
  readonly #live = new Map<string, Block>();
  /** Finalized and pruned blocks, in the order in which they were finalized or pruned. */
  readonly #retired = new Set<Block>();
  /** The runtime of the finalized block, as JSON text. */
  #runtime = "null";
  #best = "";

  constructor(withRuntime: boolean, onUnused: (block: Block) => void) {
    this.#withRuntime = withRuntime;
    this.#onUnused = onUnused;
  }

  get isInitialized(): boolean {
    return this.#finalized.length > 0;
  }

  get size(): number {
    return this.#blocks.size;
  }

  block(hash: string): Block | undefined {
    return this.#blocks.get(hash);
  }

  oldestRetired(max: number): Block | undefined {
    if (this.#retired.size <= max) return undefined;
    for (const block of this.#retired) return block;
    return undefined;
  }

  /** `result`: an event as JSON text, other than `stop` and the events of operations. */
  accept(result: string): TreeChange {
    const event = parseOrUndefined(result);
    if (!isObject(event)) return invalid;
    if (event["event"] === "initialized") return this.#initialize(event, result);
    if (!this.isInitialized) return invalid;
    switch (event["event"]) {
      case "newBlock":
        return this.#add(event, result);
      case "bestBlockChanged":
        return this.#setBest(event);
      case "finalized":
        return this.#finalize(event);
      default:
        // The specification requires clients to ignore unknown events, because later versions may add some.
        return ignored;
    }
  }

  /** Counts the client as a holder of the blocks in the events. */
  replay(): Replay {
    const last = this.#finalized.at(-1);
    const hashes = JSON.stringify(this.#finalized.map(({ hash }) => hash));
    const runtime = this.#withRuntime ? `,"finalizedBlockRuntime":${this.#runtime}` : "";
    const events = [`{"event":"initialized","finalizedBlockHashes":${hashes}${runtime}}`];
    const blocks = [...this.#finalized];
    const reported = new Set(last === undefined ? [] : [last.hash]);
    const omitted = new Set<string>();
    for (const block of this.#live.values()) {
      if (!reported.has(block.parent)) {
        omitted.add(block.hash);
        continue;
      }
      reported.add(block.hash);
      blocks.push(block);
      events.push(block.event);
    }
    const best = reported.has(this.#best) ? this.#best : (last?.hash ?? "");
    events.push(`{"event":"bestBlockChanged","bestBlockHash":"${best}"}`);
    for (const block of blocks) block.holders++;
    return { events, blocks, omitted };
  }

  release(block: Block): void {
    block.holders--;
    if (block.holders > 0) return;
    this.#blocks.delete(block.hash);
    this.#retired.delete(block);
    this.#onUnused(block);
  }

  #initialize(event: object, result: string): TreeChange {
    if (this.isInitialized) return invalid;
    const hashes = hashesOf(event, "finalizedBlockHashes");
    if (hashes === undefined || hashes.length === 0) return invalid;
    this.#runtime = memberAt(result, ["finalizedBlockRuntime"]) ?? "null";
    let parent = "";
    for (const hash of hashes) {
      if (this.#blocks.has(hash)) return invalid;
      const block = { hash, event: "", parent, runtime: undefined, holders: 1, isLive: false };
      this.#blocks.set(hash, block);
      this.#retired.add(block);
      this.#finalized.push(block);
      parent = hash;
    }
    this.#best = parent;
    this.#trim();
    return { kind: "initialized", finalized: [...this.#finalized] };
  }

  #add(event: Readonly<Record<string, unknown>>, result: string): TreeChange {
    const hash = hashOf(event["blockHash"]);
    const parent = hashOf(event["parentBlockHash"]);
    if (hash === undefined || parent === undefined) return invalid;
    if (this.#blocks.has(hash)) return ignored;
    const isReported = this.#live.has(parent) || this.#finalized.at(-1)?.hash === parent;
    if (!isReported || this.#live.size >= maxLive) return invalid;
    const hasRuntime = isObject(event["newRuntime"]);
    const runtime = hasRuntime ? memberAt(result, ["newRuntime"]) : undefined;
    const block = { hash, event: result, parent, runtime, holders: 1, isLive: true };
    this.#blocks.set(hash, block);
    this.#live.set(hash, block);
    return { kind: "newBlock", block };
  }

  #setBest(event: Readonly<Record<string, unknown>>): TreeChange {
    const hash = hashOf(event["bestBlockHash"]);
    if (hash === undefined) return invalid;
    if (!this.#live.has(hash) && this.#finalized.at(-1)?.hash !== hash) return invalid;
    this.#best = hash;
    return { kind: "best", hash };
  }

  #finalize(event: object): TreeChange {
    const hashes = hashesOf(event, "finalizedBlockHashes");
    const prunedHashes = hashesOf(event, "prunedBlockHashes");
    if (hashes === undefined || prunedHashes === undefined || hashes.length === 0) return invalid;
    const finalized: Block[] = [];
    let parent = this.#finalized.at(-1)?.hash;
    for (const hash of hashes) {
      const block = this.#live.get(hash);
      if (block === undefined || block.parent !== parent) return invalid;
      finalized.push(block);
      parent = hash;
    }
    const pruned: Block[] = [];
    for (const hash of new Set(prunedHashes)) {
      const block = this.#live.get(hash);
      if (block === undefined || finalized.includes(block)) return invalid;
      pruned.push(block);
    }
    for (const block of finalized) {
      this.#retire(block);
      this.#finalized.push(block);
      if (block.runtime !== undefined) this.#runtime = block.runtime;
    }
    for (const block of pruned) this.#retire(block);
    return { kind: "finalized", finalized, pruned };
  }

  /** Must be called after the clients have been notified of `finalized`. */
  settle(pruned: readonly Block[]): void {
    for (const block of pruned) this.release(block);
    this.#trim();
  }

  #retire(block: Block): void {
    this.#live.delete(block.hash);
    block.isLive = false;
    this.#retired.add(block);
  }

  #trim(): void {
    const excess = this.#finalized.length - keptFinalized;
    if (excess > 0) for (const block of this.#finalized.splice(0, excess)) this.release(block);
  }
}

const hashForm = /^0x(?:[0-9a-f]{2}){1,64}$/;

function hashOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const hash = value.toLowerCase();
  return hashForm.test(hash) ? hash : undefined;
}

function hashesOf(event: object, name: string): readonly string[] | undefined {
  const list = (event as Readonly<Record<string, unknown>>)[name];
  if (!Array.isArray(list) || list.length > maxFinalized) return undefined;
  const hashes: string[] = [];
  for (const each of list as readonly unknown[]) {
    const hash = hashOf(each);
    if (hash === undefined) return undefined;
    hashes.push(hash);
  }
  return hashes;
}
