/**
 * Keeps the finalized head of a pool from going back: the nodes finalize at slightly different times, and two
 * consecutive calls may reach different nodes. If a node lags, the pool answers with the highest finalized head that
 * one of its nodes has reported, in a probe, in an answer or in a subscription.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { PooledNode } from "./pooled-node.ts";

/**
 * Number of blocks by which a finalized head may be higher than the best block of the other nodes. A node that reports
 * more is not believed, because a head that is too high would be answered until the chain reaches it.
 */
const maxAhead = 16;
/** A report that has been in doubt for this time is withdrawn. */
const doubtMs = 60_000;

/** A node's report about its finalized head. */
export interface FinalizedReport {
  readonly number: number;
  /** Undefined if the node has reported the number only. */
  hash: string | undefined;
  readonly node: PooledNode;
}

export class FinalizedHead {
  readonly #nodes: readonly PooledNode[];
  readonly #clock: Clock;
  #highest: FinalizedReport | undefined;
  /** Time of the monotonic clock since which the highest report is in doubt. */
  #doubtedSince: number | undefined;

  constructor(nodes: readonly PooledNode[], clock: Clock) {
    this.#nodes = nodes;
    this.#clock = clock;
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
    if (this.#isTooHigh(report)) return highest ?? report;
    this.#highest = report;
    this.#doubtedSince = undefined;
    return report;
  }

  /** Called after each probe. Returns true if the highest report has been in doubt for too long, and is withdrawn. */
  review(): boolean {
    const isDoubted = this.#highest !== undefined && this.#isDoubtful(this.#highest);
    const now = this.#clock.monotonic();
    this.#doubtedSince = isDoubted ? (this.#doubtedSince ?? now) : undefined;
    if (now - (this.#doubtedSince ?? now) < doubtMs) return false;
    this.reset();
    return true;
  }

  /** Called when the chain has changed. */
  reset(): void {
    this.#highest = undefined;
    this.#doubtedSince = undefined;
  }

  /** Returns true if the other nodes are far below the report, or the node itself no longer reports it to its probes. */
  #isDoubtful(report: FinalizedReport): boolean {
    const { node, number } = report;
    const own = node.isEjected ? undefined : node.observed?.finalized;
    return this.#isTooHigh(report) || (own ?? number) < number;
  }

  #isTooHigh(report: FinalizedReport): boolean {
    return report.number > this.#bestFor(report) + maxAhead;
  }

  /** Returns the best block of the other usable nodes or, if there are none, of the node itself. */
  #bestFor({ node, number }: FinalizedReport): number {
    const others = this.#nodes.filter((other) => other !== node && !other.isEjected);
    const known = others.flatMap(({ observed }) => observed?.best ?? []);
    return known.length > 0 ? Math.max(...known) : (node.observed?.best ?? number);
  }
}
