/**
 * WebSockets to the nodes for subscriptions that clients cannot share. A subscription stays at the node on which it was
 * opened. They are separate from the WebSocket of the shared subscriptions, so that the loss of a node here does not
 * interrupt those.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { BlockOfCall, NodeTarget } from "../node-pool.ts";
import type { Pool } from "../pool/pool.ts";
import { FeedConnection, type FeedLimits } from "./feed-connection.ts";

/** A connection without subscriptions is kept for this time. */
const unusedMs = 5_000;
/** A node that was lost is not used for this time if there is another one. */
const avoidMs = 10_000;

export interface NodeLinksDeps {
  readonly pool: Pick<Pool, "targets">;
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
  readonly #avoidUntil = new Map<string, number>();
  readonly #links = new Set<NodeLink>();
  #isClosed = false;

  constructor(deps: NodeLinksDeps) {
    this.#deps = deps;
  }

  get nodes(): number {
    return this.#deps.pool.targets().length;
  }

  /** Reserves a place on a connection to a usable node. Undefined if there is no node. */
  take({ block, except, group }: WantedNode = {}): NodeLink | "full" | undefined {
    if (this.#isClosed) return undefined;
    const target = this.#choose(block, except);
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

  /**
   * Returns the best node that was not lost recently, or the one whose loss was the longest time ago. Nodes that have
   * the `block` are better. Undefined if all nodes are in `except`, which contains labels.
   */
  #choose(block?: BlockOfCall, except: ReadonlySet<string> = new Set()): NodeTarget | undefined {
    const now = this.#deps.clock.monotonic();
    const avoided = ({ label }: NodeTarget): number =>
      Math.max(0, (this.#avoidUntil.get(label) ?? 0) - now);
    const targets = this.#deps.pool.targets(block);
    const left = targets.filter(({ label }) => !except.has(label));
    return left.toSorted((a, b) => avoided(a) - avoided(b))[0];
  }

  /** `orOther`: any usable node will do. */
  #openTo({ label }: NodeTarget, orOther: boolean, group?: string): NodeLink | undefined {
    const { pool, maxPerLink } = this.#deps;
    const targets = pool.targets();
    for (const link of this.#links) {
      if (link.group !== group || link.size >= maxPerLink) continue;
      // The pool no longer uses this node, but another one.
      if (targets.length > 0 && !targets.some((each) => each.label === link.target.label)) continue;
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
    this.#avoidUntil.set(target.label, this.#deps.clock.monotonic() + avoidMs);
    this.disconnect(link);
  }
}
