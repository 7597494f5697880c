/**
 * Keeps the finalized head of a pool from going back: the nodes finalize at slightly different times, and two
 * consecutive calls may reach different nodes. If a node lags, the pool answers with the highest finalized head that
 * one of its nodes has reported, in a probe, in an answer or in a subscription.
 */
import type { PooledNode } from "./pooled-node.ts";

/** A node's report about its finalized head. */
export interface FinalizedReport {
  readonly number: number;
  /** Undefined if the node has reported the number only. */
  hash: string | undefined;
  readonly node: PooledNode;
}

export class FinalizedHead {
  readonly #nodes: readonly PooledNode[];
  readonly #maxAhead: number;
  #highest: FinalizedReport | undefined;

  /**
   * `maxAhead`: number of blocks by which a finalized head may be higher than the best block of the other nodes. A node
   * that reports more is not believed, because a head that is too high would be answered until the chain reaches it.
   */
  constructor(nodes: readonly PooledNode[], maxAhead: number) {
    this.#nodes = nodes;
    this.#maxAhead = maxAhead;
  }

  /** The report with the highest number that is believed. Undefined before the first report. */
  get highest(): FinalizedReport | undefined {
    return this.#highest;
  }

  /** Called when a node has reported a finalized block. Returns the highest report, which may be this one. */
  reported(report: FinalizedReport): FinalizedReport {
    const highest = this.#highest;
    if (highest !== undefined && report.number <= highest.number) {
      if (report.number === highest.number) highest.hash ??= report.hash;
      return highest;
    }
    if (report.number > this.#bestFor(report) + this.#maxAhead) return highest ?? report;
    this.#highest = report;
    return report;
  }

  /** Called when the chain has changed. */
  reset(): void {
    this.#highest = undefined;
  }

  /** Returns the best block of the other usable nodes or, if there are none, of the node itself. */
  #bestFor({ node, number }: FinalizedReport): number {
    const others = this.#nodes.filter((other) => other !== node && !other.isEjected);
    const known = others.flatMap(({ observed }) => observed?.best ?? []);
    return known.length > 0 ? Math.max(...known) : (node.observed?.best ?? number);
  }
}
