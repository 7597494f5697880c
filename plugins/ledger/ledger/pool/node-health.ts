import type { Clock, Log, UpstreamFailure } from "sluice-gateway/plugin";
import { exclusionReasons, type ExclusionReason } from "./exclusion-reason.ts";
import { failures } from "./node-call.ts";
import type { Observation } from "./probe.ts";
import type { PooledNode } from "./pooled-node.ts";

const sampleMs = 1_000;
/**
 * Time for which nodes wait for the first probe of an earlier node in the configuration. That node determines the
 * expected chain. If the wait were longer, a first node that hangs would prevent the use of good nodes.
 */
const firstProbeWaitMs = 2_000;

interface NodeHealthOptions {
  readonly nodes: readonly PooledNode[];
  readonly probeMs: number;
  readonly maxLag: number;
  readonly maxHeadAgeMs: number | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly onReviewed: () => void;
}

export class NodeHealth {
  readonly nodes: readonly PooledNode[];
  usable: readonly PooledNode[] = [];
  /**
   * The nodes that are excluded for the mildest reason. They are used if no node is usable: a call may succeed, and
   * its answer makes the node usable again. Contains only nodes that are known to be of the expected chain; while
   * there are none, the first node in the configuration, which defines that chain.
   */
  lastResort: readonly PooledNode[];
  /** See `Pool`. */
  finalized: number | undefined;
  best: number | undefined;
  epoch = 0;
  chain = 0;
  readonly firstProbe: Promise<void>;
  readonly #options: NodeHealthOptions;
  readonly #timers: readonly Disposable[];
  #genesis: string | undefined;
  /** Sum of the changes of all nodes at the last review. */
  #changes = 0;
  /** True after `firstProbeWaitMs`. Nodes then no longer wait for earlier ones. */
  #waited = false;

  constructor(options: NodeHealthOptions) {
    const { nodes, clock, probeMs } = options;
    this.#options = options;
    this.nodes = nodes;
    this.lastResort = nodes.slice(0, 1);
    this.#timers = [
      clock.every(probeMs, () => void this.probe()),
      clock.every(sampleMs, () => this.#sample()),
      clock.after(firstProbeWaitMs, () => {
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

  /** The genesis hash that every node must have. Undefined if it is not known yet. */
  get genesis(): string | undefined {
    return this.#genesis;
  }

  async probe(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.probe()));
  }

  /** Called when a call failed through the node's fault. The last usable node is not ejected. */
  failed(node: PooledNode, cause: UpstreamFailure): void {
    if (!node.ejection.failed() || node.exclusionReason !== undefined || this.usable.length < 2)
      return;
    node.ejection.eject(cause);
    this.review();
  }

  /** See `LedgerNode.distrust`. Whatever the node has answered before may be wrong, too. */
  distrust(node: PooledNode): void {
    this.epoch++;
    node.distrust.eject({ kind: failures.unusable.kind, address: node.label });
    this.review();
  }

  review(): void {
    const genesis = this.#findGenesis();
    const changes = this.nodes.reduce((sum, node) => sum + node.changes, 0);
    // The first genesis also counts as a change, because earlier answers may be from another chain.
    if (genesis !== this.#genesis || changes !== this.#changes) this.epoch++;
    const sameChain = this.nodes.filter(({ observed }) => observed && observed.genesis === genesis);
    if (genesis !== this.#genesis || hasRestarted(sameChain)) {
      this.chain++;
      for (const node of this.nodes) node.hasRestarted = false;
    }
    this.#genesis = genesis;
    this.#changes = changes;
    const changed = this.nodes.filter((node) => this.#updateExclusion(node));
    this.usable = this.nodes.filter((node) => node.exclusionReason === undefined);
    this.lastResort = sameChain.length > 0 ? withMildestReason(sameChain) : this.nodes.slice(0, 1);
    // This must come after the loop over all nodes, because the log line states whether a node is still used.
    for (const node of changed) this.#report(node);
    const lowest = Math.min(...this.usable.map((node) => node.observed?.finalized ?? -1));
    this.finalized = lowest >= 0 && Number.isFinite(lowest) ? lowest : undefined;
    if (this.usable.length > 0)
      this.best = Math.max(...this.usable.map((node) => node.observed?.best ?? 0));
    this.#options.onReviewed();
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) timer[Symbol.dispose]();
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  /** Returns the genesis of the first node in the configuration that has reported. */
  #findGenesis(): string | undefined {
    for (const { observed, probed } of this.nodes) {
      if (observed !== undefined) return observed.genesis;
      if (!probed && !this.#waited) return undefined;
    }
    return undefined;
  }

  /** Returns true if the reason has changed. */
  #updateExclusion(node: PooledNode): boolean {
    const { observed } = node;
    let reason = node.ownExclusionReason;
    if (observed !== undefined) {
      if (this.#genesis === undefined) reason ??= "unprobed";
      else if (observed.genesis !== this.#genesis) reason = "other_chain";
      else reason ??= this.#compare(node, observed);
    }
    if (reason === node.exclusionReason) return false;
    node.previousExclusionReason = node.exclusionReason;
    node.exclusionReason = reason;
    node.excludedAt = this.#options.clock.now();
    node.metrics.up.set(reason === undefined ? 1 : 0);
    if (reason !== undefined) node.metrics.ejected(reason);
    return true;
  }

  #compare(node: PooledNode, observed: Observation): ExclusionReason | undefined {
    const { maxLag, maxHeadAgeMs } = this.#options;
    let bestOfOthers: number | undefined;
    for (const other of this.nodes) {
      if (other === node || other.observed === undefined || other.ownExclusionReason !== undefined)
        continue;
      if (other.observed.genesis !== observed.genesis) continue;
      bestOfOthers = Math.max(bestOfOthers ?? 0, other.observed.best);
    }
    if (observed.syncing) return "syncing";
    if (!observed.hasNeededPeers) return "no_peers";
    if (maxHeadAgeMs !== undefined && node.headAgeMs > maxHeadAgeMs) return "stale_head";
    if (bestOfOthers !== undefined && bestOfOthers - observed.best > maxLag) return "lagging";
    return undefined;
  }

  #report(node: PooledNode): void {
    const { log } = this.#options;
    const { exclusionReason: now, previousExclusionReason: was } = node;
    const about = { node: node.label, best: node.observed?.best };
    if (now === undefined) log.info({ ...about, was }, "node is used");
    else if (now === "other_chain") {
      const { genesis } = node.observed ?? {};
      log.error(
        { ...about, genesis },
        "node belongs to another chain than the first node; it will not be used",
      );
    } else {
      const detail = node.absenceDetail;
      const isUsed = this.usable.length === 0 && this.lastResort.includes(node);
      log.warn(
        { ...about, reason: now, detail },
        isUsed
          ? "node has a fault but is still used, because no node is usable"
          : "node is not used",
      );
    }
  }

  #sample(): void {
    for (const node of this.nodes) node.metrics.inFlight.set(node.client.inFlight);
  }
}

/** Returns true if the chain has started again at every node that can be reached. One node alone may be wrong. */
function hasRestarted(nodes: readonly PooledNode[]): boolean {
  const reachable = nodes.filter((node) => node.ownExclusionReason !== "unreachable");
  return reachable.length > 0 && reachable.every((node) => node.hasRestarted);
}

function withMildestReason(nodes: readonly PooledNode[]): readonly PooledNode[] {
  for (const reason of exclusionReasons) {
    const such = nodes.filter((node) => node.exclusionReason === reason);
    if (such.length > 0) return such;
  }
  return [];
}
