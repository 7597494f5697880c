/**
 * Keeps the finalized head of a pool from going back: the nodes finalize at slightly different times, and two
 * consecutive calls may reach different nodes. If a node lags, the pool answers with the highest finalized head that
 * one of its nodes has reported.
 */
import type { PooledNode } from "./pooled-node.ts";

/**
 * Number of blocks by which a finalized head may be higher than the best block of the other nodes. A node that reports
 * more is not believed, because a head that is too high would be answered until the chain reaches it.
 */
const maxAhead = 16;

/** A node's report about its finalized head. */
interface Report {
  readonly number: number;
  /** Undefined if the node has reported the number only. */
  readonly hash: string | undefined;
  readonly node: PooledNode;
}

export class FinalizedHead {
  readonly #heads: HighestReport;
  readonly #heights: HighestReport;

  constructor(nodes: readonly PooledNode[]) {
    this.#heads = new HighestReport(nodes);
    this.#heights = new HighestReport(nodes);
  }

  /** Hash of the highest finalized block that a node has reported. Undefined before the first report. */
  get hash(): string | undefined {
    return this.#heads.current?.hash;
  }

  /** Called when a node has reported a finalized block. Returns the hash of the highest one. */
  reported(hash: string, number: number, node: PooledNode): string {
    this.reportedHeight(number, node);
    return this.#heads.add({ number, hash, node }).hash ?? hash;
  }

  /** Called when a node has reported the number of its finalized block. Returns the highest number. */
  reportedHeight(number: number, node: PooledNode): number {
    return this.#heights.add({ number, hash: undefined, node }).number;
  }

  /** Called when the chain has changed. */
  reset(): void {
    this.#heads.current = undefined;
    this.#heights.current = undefined;
  }
}

/** The report with the highest number that is believed. */
class HighestReport {
  current: Report | undefined;
  readonly #nodes: readonly PooledNode[];

  constructor(nodes: readonly PooledNode[]) {
    this.#nodes = nodes;
  }

  /** Returns the highest report, which may be this one. */
  add(report: Report): Report {
    const highest = this.current;
    if (highest !== undefined && report.number <= highest.number) return highest;
    if (report.number > this.#bestFor(report) + maxAhead) return highest ?? report;
    this.current = report;
    return report;
  }

  /** Returns the best block of the other usable nodes or, if there are none, of the node itself. */
  #bestFor({ node, number }: Report): number {
    const others = this.#nodes.filter((other) => other !== node && !other.isEjected);
    const known = others.flatMap(({ observed }) => observed?.best ?? []);
    return known.length > 0 ? Math.max(...known) : (node.observed?.best ?? number);
  }
}
