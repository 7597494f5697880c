/** Who of a pool's nodes is usable: probes them, compares them, ejects them and takes them back. */
import type { Clock } from "../../../../src/services/clock.ts";
import type { Log } from "../../../../src/services/log.ts";
import { complaints, judge, type Complaint } from "./complaint.ts";
import type { Observation } from "./probe.ts";
import type { PooledNode } from "./pooled-node.ts";

const sampleMs = 1_000;
/**
 * How long nodes wait for the first word of one before them in the configuration: it decides of which chain they must
 * be. Longer, and a first node that hangs would keep good ones from being used.
 */
const firstWordMs = 2_000;

export interface RosterOptions {
  readonly nodes: readonly PooledNode[];
  readonly probeMs: number;
  readonly maxLag: number;
  readonly maxHeadAgeMs: number | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

export class Roster {
  readonly nodes: readonly PooledNode[];
  /** Nodes without a complaint. */
  usable: readonly PooledNode[] = [];
  /**
   * When none is usable: those with the least complaint. A refused call has failed for certain, a tried one may not,
   * and the first answer brings the node back. Only nodes that were seen to be of the reference chain; while none was,
   * the first in the configuration, whose chain that is.
   */
  lastResort: readonly PooledNode[];
  /** See `NodePool`. */
  finalized: number | undefined;
  best: number | undefined;
  epoch = 0;
  /** Resolves when every node has been probed once, well or not. */
  readonly firstProbe: Promise<void>;
  readonly #options: RosterOptions;
  readonly #timers: readonly Disposable[];
  /** The genesis hash that every node must have; undefined: not known yet. */
  #reference: string | undefined;
  /** Of all nodes together, when the epoch was last looked at. */
  #changes = 0;
  /** No node is waited for any longer; see `FIRST_WORD_MS`. */
  #waited = false;

  constructor(options: RosterOptions) {
    const { nodes, clock, probeMs } = options;
    this.#options = options;
    this.nodes = nodes;
    this.lastResort = nodes.slice(0, 1);
    this.#timers = [
      clock.every(probeMs, () => void this.probe()),
      clock.every(sampleMs, () => this.#sample()),
      clock.after(firstWordMs, () => {
        this.#waited = true;
        this.review();
      }),
    ];
    for (const node of nodes) {
      node.metrics.up.set(0);
      node.onProbed = () => this.review();
    }
    this.firstProbe = this.probe();
  }

  /** Probes every node, or waits for the probes that are under way; resolves when all have ended, well or not. */
  async probe(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.probe()));
  }

  /** A call failed through the node's fault. The last usable node stays: to be slow or shaky is better than nothing. */
  failed(node: PooledNode): void {
    if (!node.breaker.failed() || node.complaint !== undefined || this.usable.length < 2) return;
    node.breaker.trip();
    this.review();
  }

  /** Compares the nodes again after something has changed. */
  review(): void {
    const reference = this.#findReference();
    const changes = this.nodes.reduce((sum, node) => sum + node.changes, 0);
    // The first reference, too: what was answered before may be of another chain.
    if (reference !== this.#reference || changes !== this.#changes) this.epoch++;
    this.#reference = reference;
    this.#changes = changes;
    const changed = this.nodes.filter((node) => this.#judge(node));
    this.usable = this.nodes.filter((node) => node.complaint === undefined);
    const akin = this.nodes.filter(({ observed }) => observed && observed.genesis === reference);
    this.lastResort = akin.length > 0 ? leastComplaint(akin) : this.nodes.slice(0, 1);
    // After all nodes are judged, because the log says whether a node is still used.
    for (const node of changed) this.#report(node);
    const lowest = Math.min(...this.usable.map((node) => node.observed?.finalized ?? -1));
    this.finalized = lowest >= 0 && Number.isFinite(lowest) ? lowest : undefined;
    if (this.usable.length === 0) return;
    this.best = Math.max(...this.usable.map((node) => node.observed?.best ?? 0));
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) timer[Symbol.dispose]();
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  /** The genesis of the first node in the configuration, or of the next one when those before it have not said. */
  #findReference(): string | undefined {
    for (const { observed, probed } of this.nodes) {
      if (observed !== undefined) return observed.genesis;
      if (!probed && !this.#waited) return undefined;
    }
    return undefined;
  }

  /** True if the judgement has changed. */
  #judge(node: PooledNode): boolean {
    const { observed } = node;
    let complaint = node.fault;
    if (observed !== undefined) {
      if (this.#reference === undefined) complaint ??= "unprobed";
      else if (observed.genesis !== this.#reference) complaint = "other_chain";
      else complaint ??= this.#compare(node, observed);
    }
    if (complaint === node.complaint) return false;
    node.previousComplaint = node.complaint;
    node.complaint = complaint;
    node.metrics.up.set(complaint === undefined ? 1 : 0);
    if (complaint !== undefined) node.metrics.ejected(complaint);
    return true;
  }

  #compare(node: PooledNode, observed: Observation): Complaint | undefined {
    const { maxLag, maxHeadAgeMs } = this.#options;
    let bestOfOthers: number | undefined;
    for (const other of this.nodes) {
      if (other === node || other.observed === undefined || other.fault !== undefined) continue;
      if (other.observed.genesis !== observed.genesis) continue;
      bestOfOthers = Math.max(bestOfOthers ?? 0, other.observed.best);
    }
    return judge(observed, { bestOfOthers, maxLag, headAgeMs: node.headAgeMs, maxHeadAgeMs });
  }

  #report(node: PooledNode): void {
    const { log } = this.#options;
    const { complaint: now, previousComplaint: was } = node;
    const about = { node: node.label, best: node.observed?.best };
    if (now === undefined) log.info({ ...about, was }, "node is usable");
    else if (now === "other_chain") {
      const { genesis } = node.observed ?? {};
      log.error({ ...about, genesis }, "node is of another chain than the first one: never used");
    } else {
      const error = now === "unreachable" ? node.lastError : undefined;
      const isProbed = now === "unreachable" || now === "bad_answer";
      const detail = isProbed ? node.probeDetail : undefined;
      const isUsed = this.usable.length === 0 && this.lastResort.includes(node);
      log.warn(
        { ...about, reason: now, error, detail },
        isUsed ? "node has a fault, and is still asked: no node is usable" : "node is left out",
      );
    }
  }

  #sample(): void {
    for (const node of this.nodes) node.metrics.inFlight.set(node.client.inFlight);
  }
}

function leastComplaint(nodes: readonly PooledNode[]): readonly PooledNode[] {
  for (const complaint of complaints) {
    const such = nodes.filter((node) => node.complaint === complaint);
    if (such.length > 0) return such;
  }
  return [];
}
