/**
 * WebSockets to the nodes for subscriptions that clients cannot share. A subscription stays at the node on which it was
 * opened. They are separate from the WebSocket of the shared subscriptions, so that the loss of a node here does not
 * interrupt those.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { BlockOfCall, NodePool, NodeTarget } from "../node-pool.ts";
import { FeedConnection, type FeedLimits } from "./feed-connection.ts";

/** A connection without subscriptions is kept for this time. */
const unusedMs = 5_000;

export interface NodeLinksDeps {
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: FeedLimits;
  readonly maxPerLink: number;
  /** Maximum number of connections. A node accepts 100 in total by default. */
  readonly maxLinks: number;
  readonly lostMessage: string;
}

export interface NodeLink {
  readonly target: NodeTarget;
  readonly connection: FeedConnection;
  readonly open: Set<{ lose(): void }>;
  /** The group of clients that the connection is for. Undefined if it is for all. */
  readonly group: string | undefined;
  /** Number of subscriptions, including those that the node has not confirmed yet. */
  size: number;
}

/**
 * The node that is wanted. `except`: labels of nodes that must not be used. `group`: the connection is for clients of this
 * group only, as long as there are enough connections.
 */
interface WantedNode {
  readonly block?: BlockOfCall;
  readonly except?: ReadonlySet<string>;
  readonly group?: string;
}

export class NodeLinks {
  readonly #deps: NodeLinksDeps;
  readonly #nodes: TargetChoice;
  readonly #links = new Set<NodeLink>();
  #isClosed = false;

  constructor(deps: NodeLinksDeps) {
    this.#deps = deps;
    this.#nodes = new TargetChoice(deps.pool, deps.clock);
  }

  get nodes(): number {
    return this.#nodes.count;
  }

  /** Reserves a place on a connection to a usable node. Undefined if there is no node. */
  take({ block, except, group }: WantedNode = {}): NodeLink | "full" | undefined {
    if (this.#isClosed) return undefined;
    const target = this.#nodes.choose(block, except);
    if (target === undefined) return undefined;
    const orOther = block === undefined && except === undefined;
    const link = this.#openTo(target, orOther, group) ?? this.#connect(target, group);
    if (link !== "full") link.size++;
    return link;
  }

  release(link: NodeLink): void {
    link.size--;
    if (link.size > 0 || !this.#links.has(link)) return;
    this.#deps.clock.after(unusedMs, () => {
      if (link.size === 0) this.disconnect(link);
    });
  }

  disconnect(link: NodeLink): void {
    if (!this.#links.delete(link)) return;
    link.connection.close();
    for (const subscription of link.open) subscription.lose();
  }

  keepOnly(label: string): void {
    const others = [...this.#links].filter(({ target }) => target.label !== label);
    for (const link of others) this.disconnect(link);
  }

  has(link: NodeLink): boolean {
    return this.#links.has(link);
  }

  close(): void {
    this.#isClosed = true;
    for (const link of this.#links) this.disconnect(link);
  }

  /** `orOther`: any usable node will do. */
  #openTo({ label }: NodeTarget, orOther: boolean, group?: string): NodeLink | undefined {
    for (const link of this.#links) {
      if (link.group !== group) continue;
      if (link.size >= this.#deps.maxPerLink || this.#nodes.isUnusable(link.target)) continue;
      if (orOther || link.target.label === label) return link;
    }
    return undefined;
  }

  #connect(target: NodeTarget, group: string | undefined): NodeLink | "full" {
    const { clock, limits, maxLinks } = this.#deps;
    if (this.#links.size >= maxLinks) {
      const [smallest] = [...this.#links].toSorted((a, b) => a.size - b.size);
      if (smallest === undefined || (smallest.size > 0 && group === undefined)) return "full";
      if (smallest.size > 0) return smallest;
      this.disconnect(smallest);
    }
    const connection = new FeedConnection(target.url, clock, limits, (reason) =>
      this.#lost(link, reason),
    );
    const link: NodeLink = { target, connection, open: new Set(), group, size: 0 };
    this.#links.add(link);
    return link;
  }

  #lost(link: NodeLink, reason: string): void {
    const { target, open } = link;
    const fields = { node: target.label, reason, subscriptions: open.size };
    this.#deps.log.warn(fields, this.#deps.lostMessage);
    this.#nodes.avoid(target);
    this.disconnect(link);
  }
}

/** A node that was lost is not used for this time if there is another one. */
const avoidMs = 10_000;

class TargetChoice {
  readonly #pool: Pick<NodePool, "targets">;
  readonly #clock: Clock;
  readonly #avoidUntil = new Map<string, number>();

  constructor(pool: Pick<NodePool, "targets">, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
  }

  get count(): number {
    return this.#pool.targets().length;
  }

  /**
   * Returns the best node that was not lost recently, or the one whose loss was the longest time ago. Nodes that have
   * the `block` are better. Undefined if all nodes are in `except`, which contains labels.
   */
  choose(block?: BlockOfCall, except: ReadonlySet<string> = new Set()): NodeTarget | undefined {
    const now = this.#clock.monotonic();
    const avoided = ({ label }: NodeTarget): number =>
      Math.max(0, (this.#avoidUntil.get(label) ?? 0) - now);
    const targets = this.#pool.targets(block);
    const left = targets.filter(({ label }) => !except.has(label));
    return left.toSorted((a, b) => avoided(a) - avoided(b))[0];
  }

  avoid({ label }: NodeTarget): void {
    this.#avoidUntil.set(label, this.#clock.monotonic() + avoidMs);
  }

  /** Returns true if the pool no longer uses this node, but another one. */
  isUnusable({ label }: NodeTarget): boolean {
    const targets = this.#pool.targets();
    return targets.length > 0 && !targets.some((target) => target.label === label);
  }
}
