/**
 * Knowledge of a pool of several nodes about the blocks of each node. With it, a read at a block is sent to a node
 * that has the block, wrong empty answers are recognised, and the finalized head does not go back between nodes.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { Announcements, BlockOfCall, NodeRequest } from "../node-pool.ts";
import { isEmpty, judgeEmpty, type EmptyAnswer } from "./empty-answer.ts";
import { FinalizedHead, type FinalizedReport } from "./finalized-head.ts";
import { KnownBlocks } from "./known-blocks.ts";
import { finalizedHeight } from "../methods.ts";
import { discardedState, isFailureWithoutBlock } from "./node-error.ts";
import { ask, blockNumber } from "./probe.ts";
import type { PooledNode } from "./pooled-node.ts";
import { StateDepths } from "./state-depth.ts";

/** Methods whose result is the hash of a block that the node has, or a list with such a hash. */
const returnsHash: ReadonlySet<string> = new Set([
  "chain_getBlockHash",
  "chain_getHead",
  "archive_v1_hashByHeight",
]);
/** This method reports a failure as a result. */
const archiveCall = "archive_v1_call";

/** The result for a block that a node does not have. */
const missing = Symbol("missing");

export class NodeAgreement implements Announcements {
  readonly #nodes: readonly PooledNode[];
  readonly #blocks: KnownBlocks;
  readonly #depths: StateDepths;
  readonly #finalized: FinalizedHead;
  #chain = 0;
  #best: number | undefined;

  constructor(nodes: readonly PooledNode[], clock: Clock) {
    this.#nodes = nodes;
    this.#blocks = new KnownBlocks(clock);
    this.#depths = new StateDepths(clock);
    this.#finalized = new FinalizedHead(nodes, clock);
  }

  /** Called after each probe of a node. `pool`: the chain (a counter) and best block of the pool after the probe. */
  probed(
    node: PooledNode,
    pool: { readonly chain: number; readonly best: number | undefined },
  ): void {
    this.#best = pool.best;
    if (pool.chain === this.#chain) {
      if (this.#finalized.review()) return this.#learnAll();
      return this.#learn(node);
    }
    // Clients may have been told of this block before the chain was known.
    const first = this.#chain === 0 ? this.#finalized.highest : undefined;
    this.#chain = pool.chain;
    this.#blocks.clear();
    this.#finalized.reset();
    // A node that has restarted may lag, and the finalized head must not go back to its finalized head.
    this.#learnAll();
    if (first !== undefined) this.#finalized.reported(first);
  }

  #learnAll(): void {
    for (const each of this.#nodes) this.#learn(each);
  }

  #learn(node: PooledNode): void {
    const { observed } = node;
    if (observed === undefined || node.isEjected) return;
    const { best, bestHash, finalized: number, finalizedHash: hash } = observed;
    if (bestHash !== undefined) this.#blocks.reported(bestHash, best, node);
    // A node that has finalized more than it has imported is wrong.
    if (hash !== undefined && number !== undefined && number <= best) {
      this.#blocks.reported(hash, number, node);
      this.#finalized.reported({ hash, number, node });
    }
    this.#depths.probed(node);
  }

  /**
   * Returns those of `nodes` that have the block, or all of them if that is not known. `finalized`: highest block that
   * every node has finalized.
   */
  nodesWith(
    block: BlockOfCall | undefined,
    nodes: readonly PooledNode[],
    finalized: number | undefined,
  ): readonly PooledNode[] {
    if (block === undefined || nodes.length < 2) return nodes;
    const { hash, needsState } = block;
    const number = block.number ?? (hash === undefined ? undefined : this.#blocks.numberOf(hash));
    if (number !== undefined && number <= (finalized ?? -1)) {
      if (!needsState) return nodes;
      return those(nodes, (node) => number >= (node.oldestState ?? 0));
    }
    if (hash === undefined)
      return those(nodes, ({ observed }) => (number ?? 0) <= (observed?.best ?? 0));
    const reporters = this.#blocks.reportersOfNew(hash);
    return those(nodes, (node) => reporters.includes(node));
  }

  /** Learns from a result, and decides whether it can be right. */
  judgeResult(
    request: NodeRequest,
    node: PooledNode,
    bytes: Buffer,
    start: number,
    end: number,
  ): EmptyAnswer {
    if (isEmpty(bytes, start, end)) return judgeEmpty(request, node, this.#blocks, this.#best);
    if (request.method === archiveCall && isFailureWithoutBlock(bytes, start, end)) {
      if (discardedState(bytes, start, end)) this.discarded(request.block, node);
      return "elsewhere";
    }
    if (returnsHash.has(request.method)) {
      const hash = readHash(bytes.toString("latin1", start, Math.min(end, start + maxHashText)));
      if (hash !== undefined) this.#blocks.reported(hash, request.block?.number, node);
    }
    return "fine";
  }

  /** Called when a node has answered that it discarded the state at a block. */
  discarded(block: BlockOfCall | undefined, node: PooledNode): void {
    const { oldestState } = node;
    if (block?.hash === undefined || oldestState === undefined || oldestState === 0) return;
    this.#blocks.isAtMost(block.hash, oldestState - 1);
  }

  /**
   * Returns the answer to a method that returns the finalized head: that of the node, or the one that another node has
   * given if the node is behind. Returns `null` if the node does not have its own finalized head. Undefined if this is
   * not known, because a node was lost in the meantime. Never rejects. `answer`: JSON text.
   */
  async finalizedHead(
    method: string,
    answer: string,
    node: PooledNode,
  ): Promise<string | undefined> {
    if (method === finalizedHeight) {
      const height = Number(answer);
      if (!Number.isSafeInteger(height) || height < 0) return answer;
      return String(this.#reportedNumber(height, node).number);
    }
    const hash = readHash(answer);
    if (hash === undefined || hash === this.#finalized.highest?.hash) return answer;
    const number = await this.#numberOf(hash, node);
    if (typeof number !== "number") return number === missing ? "null" : undefined;
    const report = this.#finalized.reported({ hash, number, node });
    const { highest } = this.#finalized;
    const found = await this.#hashOf(report, node);
    // A client that has been told of a later block in the meantime can have joined this call.
    if (this.#finalized.highest !== highest) return this.finalizedHead(method, answer, node);
    // A report of a block that its own node does not have is wrong.
    if (found === missing) return JSON.stringify(hash);
    return found && JSON.stringify(found);
  }

  /** The highest finalized block that a node has reported. Undefined before the first report. */
  get finalizedFloor(): number | undefined {
    return this.#finalized.highest?.number;
  }

  announcedFinalized(label: string, number: number, hash?: string): void {
    const node = this.#labelled(label);
    if (node === undefined) return;
    if (hash === undefined) return void this.#reportedNumber(number, node);
    this.#blocks.reported(hash, number, node);
    this.#finalized.reported({ number, hash, node });
  }

  async numberOf(label: string, hash: string): Promise<number | undefined> {
    const node = this.#labelled(label);
    const number = node && (await this.#askNumber(hash, node));
    return typeof number === "number" ? number : undefined;
  }

  announcedBlocks(label: string, hashes: readonly string[]): void {
    const node = this.#labelled(label);
    if (node === undefined) return;
    for (const hash of hashes) this.#blocks.reported(hash, undefined, node);
  }

  announcedPruned(hashes: readonly string[]): void {
    for (const hash of hashes) this.#blocks.forget(hash);
  }

  /** Asks the node for the number of a block, unless it is known. Undefined if the node does not answer. */
  async #numberOf(hash: string, node: PooledNode): Promise<number | typeof missing | undefined> {
    return this.#blocks.numberOf(hash) ?? this.#askNumber(hash, node);
  }

  async #askNumber(hash: string, node: PooledNode): Promise<number | typeof missing | undefined> {
    const header = await ask(node.probeClient, "chain_getHeader", [hash]);
    if (header.kind === "failed") return undefined;
    const number = blockNumber(header.value);
    if (number === undefined) return missing;
    this.#blocks.reported(hash, number, node);
    return number;
  }

  /** Called when a node has reported the number of its finalized head only. Returns the highest report. */
  #reportedNumber(number: number, node: PooledNode): FinalizedReport {
    const report: FinalizedReport = { number, hash: undefined, node };
    const highest = this.#finalized.reported(report);
    // The node is asked for the hash at once, because it may be lost when a client needs the hash.
    if (highest === report) void this.#hashOf(report, node);
    return highest;
  }

  /**
   * Returns the hash of a finalized block. If only its number is known, asks the node that has reported it, and then
   * the node that has answered. `missing` if the first node does not have the block. Undefined if neither answers.
   */
  async #hashOf(
    report: FinalizedReport,
    answering: PooledNode,
  ): Promise<string | typeof missing | undefined> {
    let isMissing = false;
    for (const node of new Set([report.node, answering])) {
      if (report.hash !== undefined) break;
      const reply = await ask(node.probeClient, "chain_getBlockHash", [report.number]);
      const hash = reply.kind === "value" ? readHash(JSON.stringify(reply.value) ?? "") : undefined;
      if (hash !== undefined) this.#blocks.reported(hash, report.number, node);
      else if (node === report.node) isMissing = reply.kind === "value";
      report.hash ??= hash;
    }
    return report.hash ?? (isMissing ? missing : undefined);
  }

  #labelled(label: string): PooledNode | undefined {
    return this.#nodes.find((node) => node.label === label);
  }

  close(): void {
    this.#depths.close();
  }
}

/** Length of a list with the longest block hash as JSON text. */
const maxHashText = 134;

/** Returns the hash in lower case. Undefined if the JSON text is neither a hash nor a list with one hash. */
function readHash(text: string): string | undefined {
  const found = /^(?:"(0x[0-9a-f]{1,128})"|\["(0x[0-9a-f]{1,128})"\])$/i.exec(text);
  return (found?.[1] ?? found?.[2])?.toLowerCase();
}

/** Returns the nodes for which `has` is true, or all if there are none. */
function those(
  nodes: readonly PooledNode[],
  has: (node: PooledNode) => boolean,
): readonly PooledNode[] {
  const having = nodes.filter(has);
  return having.length > 0 ? having : nodes;
}
