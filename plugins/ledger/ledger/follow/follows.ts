/**
 * The follows of a pool: at most one per value of `withRuntime`, on one WebSocket to one node. If the node is lost, all
 * clients are stopped, and the next follow uses another node.
 */
import type { Metrics } from "sluice-gateway/plugin";
import type { FollowMethods, LedgerFollows, OpenedFollow } from "sluice-gateway/services";
import { parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { AnswerCache } from "../cache.ts";
import { feedLimits, type FeedConnection } from "../feed/feed-connection.ts";
import { SharedConnection } from "../feed/shared-connection.ts";
import { maxWaitMs } from "../height-waits.ts";
import { upstreamMetrics } from "../ledger-metrics.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import { blockNumber } from "../pool/probe.ts";
import { SharedFollow, type FollowLink } from "./shared-follow.ts";

/** A follow without clients is kept for this time, because a client often follows again. */
const unusedMs = 5_000;

interface FollowsDeps extends LedgerDeps {
  readonly methods: FollowMethods | undefined;
  readonly cache: AnswerCache;
}

type Opened =
  | { readonly kind: "open"; readonly follow: SharedFollow }
  | { readonly kind: "error"; readonly error: string }
  | { readonly kind: "failed" };

const maxAttempts = 4;

const failed: OpenedFollow & Opened = { kind: "failed" };

export class Follows implements LedgerFollows {
  readonly methods: FollowMethods | undefined;
  readonly #deps: FollowsDeps;
  readonly #metrics: ReturnType<typeof followMetrics>;
  readonly #connection: SharedConnection;
  readonly #answerMs: number;
  /** Follows that are open or being opened, by `withRuntime`. */
  readonly #open = new Map<boolean, Promise<Opened>>();
  /** Open follows with the node's id of the subscription as JSON text. */
  readonly #shared = new Map<SharedFollow, string>();
  #isClosed = false;

  constructor(deps: FollowsDeps) {
    const { upstream, metrics } = deps;
    this.#deps = deps;
    this.methods = deps.methods;
    this.#metrics = followMetrics(upstream.name, metrics);
    const limits = feedLimits(upstream);
    this.#answerMs = limits.answerMs;
    this.#connection = new SharedConnection({
      ...deps,
      // Each follow limits its own events. Those of operations are not limited, because the gateway requests them.
      limits: { ...limits, baseRate: Infinity },
      lostMessage: "the follows end, because their node is lost",
      onLost: () => this.#onLost(),
      isMissing: (head) => [...this.#shared.keys()].some((follow) => follow.isMissing(head)),
    });
  }

  async open(withRuntime: boolean): Promise<OpenedFollow> {
    const { clock, pool } = this.#deps;
    // The client may know this finalized block.
    const floor = pool.reference.floor;
    const deadline = clock.monotonic() + maxWaitMs;
    // A node that is lost in the meantime is replaced by another one.
    for (let attempt = 0; attempt < maxAttempts && clock.monotonic() <= deadline; attempt++) {
      if (this.#isClosed) return failed;
      const opened = await this.#opened(withRuntime);
      if (opened.kind === "error") return opened;
      if (opened.kind !== "open" || opened.follow.hasEnded) continue;
      const { follow } = opened;
      const subscription = follow.join();
      if (floor === undefined || (await follow.reached(floor)))
        return { kind: "open", subscription };
      subscription.close();
    }
    return failed;
  }

  close(): void {
    this.#isClosed = true;
    this.#connection.close();
    this.#endAll();
  }

  #opened(withRuntime: boolean): Promise<Opened> {
    let opened = this.#open.get(withRuntime);
    if (opened === undefined) {
      opened = this.#follow(withRuntime).then((result) => {
        const isCurrent = this.#open.get(withRuntime) === opened;
        if (result.kind !== "open" && isCurrent) this.#open.delete(withRuntime);
        return result;
      });
      this.#open.set(withRuntime, opened);
    }
    return opened;
  }

  /** Never rejects. */
  async #follow(withRuntime: boolean): Promise<Opened> {
    const { clock, pool } = this.#deps;
    const ms = this.#connection.waitMs;
    // Clients that follow again must not cause a loop if nodes are lost repeatedly.
    if (ms > 0) await new Promise<void>((resolve) => clock.after(ms, resolve));
    await pool.reference.ready();
    const connection = this.#connection.open();
    if (connection === undefined || !(await connection.opened)) return failed;
    let follow: SharedFollow | undefined;
    const params = JSON.stringify([withRuntime]);
    const answer = await connection.subscribe("chainHead_v1_follow", params, (id) => {
      const opened = new SharedFollow(id, withRuntime, this.#linkOf(connection, withRuntime));
      follow = opened;
      this.#shared.set(opened, id);
      this.#report();
      return (result) => opened.receive(result);
    });
    if (answer === undefined || this.#connection.current !== connection) return failed;
    if (answer.kind === "result") return follow === undefined ? failed : { kind: "open", follow };
    if (this.#open.size <= 1) this.#disconnect();
    return { kind: "error", error: answer.text };
  }

  #linkOf(connection: FeedConnection, withRuntime: boolean): FollowLink {
    const { clock, cache, upstream, pool } = this.#deps;
    // The connection is open, so there is a node.
    const { node = "" } = this.#connection;
    return {
      clock,
      cache,
      answerMs: this.#answerMs,
      sharing: upstream.singleFlight,
      send: (...call) => connection.send(...call),
      onBroken: (reason) => {
        if (this.#connection.current === connection) this.#connection.lose(reason);
      },
      onUnused: () => {
        clock.after(unusedMs, () => this.#unfollow(connection, withRuntime));
      },
      numberOf: async (hash) => {
        if (pool.reference.floor === undefined) return undefined;
        const answer = await connection.request("chain_getHeader", JSON.stringify([hash]));
        return blockNumber(parseOrUndefined(answer?.text));
      },
      onFinalized: (block) => pool.reference.announced(node, block.number, block),
      onChange: () => this.#report(),
    };
  }

  #unfollow(connection: FeedConnection, withRuntime: boolean): void {
    if (this.#connection.current !== connection) return;
    void this.#open.get(withRuntime)?.then((opened) => {
      if (opened.kind !== "open" || opened.follow.clients > 0 || opened.follow.hasEnded) return;
      const id = this.#shared.get(opened.follow);
      this.#open.delete(withRuntime);
      this.#shared.delete(opened.follow);
      opened.follow.end();
      if (id !== undefined) connection.unsubscribe("chainHead_v1_unfollow", id);
      if (this.#shared.size === 0 && this.#open.size === 0) this.#disconnect();
      this.#report();
    });
  }

  #onLost(): void {
    this.#metrics.stops.add(this.#shared.size);
    this.#endAll();
  }

  #disconnect(): void {
    this.#connection.disconnect();
    this.#endAll();
  }

  #endAll(): void {
    this.#open.clear();
    const shared = [...this.#shared.keys()];
    this.#shared.clear();
    for (const follow of shared) follow.end();
    this.#report();
  }

  #report(): void {
    let clients = 0;
    let blocks = 0;
    for (const follow of this.#shared.keys()) {
      clients += follow.clients;
      blocks += follow.pinnedBlocks;
    }
    this.#metrics.follows.set(this.#shared.size);
    this.#metrics.clients.set(clients);
    this.#metrics.pinnedBlocks.set(blocks);
  }
}

function followMetrics(upstream: string, metrics: Metrics) {
  const { gauge, counter } = upstreamMetrics(upstream, metrics);
  return {
    follows: gauge("sluice_ledger_node_follows", "Follows at the node, which clients share."),
    clients: gauge("sluice_ledger_follow_clients", "Open follows of clients."),
    pinnedBlocks: gauge("sluice_ledger_pinned_blocks", "Blocks that are pinned at the node."),
    stops: counter(
      "sluice_ledger_follow_stops_total",
      "Follows at the node that ended for all their clients.",
    ),
  };
}
