/**
 * The subscriptions of a pool. One WebSocket to the reference node carries one subscription per method, which all clients
 * share. If another node becomes the reference, the subscriptions move to it. Storage subscriptions have their own
 * connections: see storage-subscriptions.ts.
 */
import type { Clock, Metrics } from "sluice-gateway/plugin";
import type {
  LedgerSubscriptions,
  OpenedSubscription,
  SubscriptionOpener,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import type { NodeHead } from "../node-pool.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import { maxWaitMs } from "../height-waits.ts";
import { upstreamMetrics } from "../ledger-metrics.ts";
import { blockNumber } from "../pool/probe.ts";
import type { FeedMethod, FeedMethods } from "../websocket-methods.ts";
import {
  feedLimits,
  type FeedAnswer,
  type FeedConnection,
  type FeedLimits,
} from "./feed-connection.ts";
import { SharedConnection } from "./shared-connection.ts";
import { keysOf, StorageSubscriptions } from "./storage-subscriptions.ts";
import { Topic, type TopicOwner } from "./topic.ts";

/** A subscription without clients is kept for this time, because a client often subscribes again. */
const unusedMs = 5_000;

const newChain = "the chain has changed or started again";
const invalidParams =
  '{"code":-32602,"message":"Invalid params: expected 1 to 1024 storage keys in hexadecimal"}';
const unknownOpener: SubscriptionOpener = { key: "", workspace: "" };

interface FeedDeps extends LedgerDeps {
  readonly methods: FeedMethods;
}

export class Feed implements LedgerSubscriptions, TopicOwner {
  readonly subscribing: FeedMethods["subscribing"];
  readonly unsubscribing: FeedMethods["unsubscribing"];
  readonly #deps: FeedDeps;
  readonly #limits: FeedLimits;
  readonly #metrics: ReturnType<typeof feedMetrics>;
  readonly #topics = new Map<FeedMethod, Topic>();
  /** The first answer of a node to each topic, for the clients that wait for it. */
  readonly #opening = new Map<
    Topic,
    PromiseWithResolvers<FeedAnswer> & { readonly since: number }
  >();
  readonly #connection: SharedConnection;
  readonly #storage: StorageSubscriptions;
  #retry: Disposable | undefined;
  #isClosed = false;

  constructor(deps: FeedDeps) {
    const { upstream, methods, metrics } = deps;
    this.#deps = deps;
    this.subscribing = methods.subscribing;
    this.unsubscribing = methods.unsubscribing;
    this.#limits = feedLimits(upstream);
    this.#metrics = feedMetrics(upstream.name, metrics);
    this.#connection = new SharedConnection({
      ...deps,
      limits: this.#limits,
      lostMessage: "the subscriptions move, because their node is lost",
      onLost: () => this.#move(),
      onReference: () => this.#connect(),
      isMissing: (head) => this.#isMissing(head),
    });
    this.#storage = new StorageSubscriptions({ ...deps, limits: this.#limits });
  }

  nameOf({ name }: { readonly name: string }, params: string): string | undefined {
    if (this.subscribing.get(name)?.kind !== "storage") return name;
    return keysOf(params)?.join(" ");
  }

  async open(
    { name }: { readonly name: string },
    params: string,
    opener = unknownOpener,
  ): Promise<OpenedSubscription> {
    const method = this.subscribing.get(name);
    const keys = method?.kind === "storage" ? keysOf(params) : [];
    if (method === undefined || keys === undefined) return { kind: "error", error: invalidParams };
    if (method.kind === "storage") return await this.#storage.open(method, keys, opener);
    // The client may know this finalized block.
    const floor = method.kind === "finalized" ? this.#deps.pool.reference.floor : undefined;
    let topic = this.#topics.get(method);
    if (topic === undefined) {
      topic = new Topic(method, this);
      this.#add(topic);
    }
    const subscription = topic.join();
    const answer = await this.#opening.get(topic)?.promise;
    const isOpen = this.#isCurrent(topic) && !this.#opening.has(topic);
    if (isOpen && (floor === undefined || (await topic.heights.wait(floor))))
      return { kind: "open", subscription };
    subscription.close();
    return answer?.kind === "error" ? { kind: "error", error: answer.text } : { kind: "failed" };
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.[Symbol.dispose]();
    for (const topic of this.#topics.values()) this.#remove(topic, undefined);
    this.#connection.close();
    this.#storage.close();
  }

  get best(): number | undefined {
    return this.#deps.pool.best;
  }

  get clock(): Clock {
    return this.#deps.clock;
  }

  async header(hash: string): Promise<string | undefined> {
    const answer = await this.#connection.current?.request(
      "chain_getHeader",
      JSON.stringify([hash]),
    );
    return answer?.kind === "result" ? answer.text : undefined;
  }

  onInvalid(reason: string): void {
    this.#connection.lose(reason);
  }

  onGap(topic: Topic): void {
    this.#lose(topic, "no node was usable for too long");
  }

  onUnused(topic: Topic): void {
    this.#deps.clock.after(unusedMs, () => {
      if (topic.isUnused && this.#isCurrent(topic)) this.#remove(topic, undefined);
    });
  }

  /** Checks every topic, because each one notes the head for its next check. */
  #isMissing(head: NodeHead): boolean {
    let isMissing = false;
    for (const topic of this.#topics.values()) if (topic.checkHead(head)) isMissing = true;
    return isMissing;
  }

  #add(topic: Topic): void {
    this.#topics.set(topic.method, topic);
    const { clock } = this.#deps;
    this.#opening.set(topic, { ...Promise.withResolvers<FeedAnswer>(), since: clock.monotonic() });
    clock.after(maxWaitMs, () => {
      if (this.#connection.current === undefined) this.#endOverdue();
    });
    // If no node can be reached, the clients must not wait without a limit.
    clock.after(this.#limits.connectMs + this.#limits.answerMs, () => {
      if (this.#opening.has(topic)) this.#remove(topic, undefined);
    });
    this.#connect();
    this.#begin(topic);
  }

  #begin(topic: Topic): void {
    const { current } = this.#connection;
    if (current !== undefined) void this.#subscribe(topic, current);
  }

  #isCurrent(topic: Topic): boolean {
    return this.#topics.get(topic.method) === topic;
  }

  /** `answer`: the refusal for clients that wait for the topic to open. */
  #remove(topic: Topic, answer: FeedAnswer): void {
    if (!this.#isCurrent(topic)) return;
    this.#topics.delete(topic.method);
    this.#opening.get(topic)?.resolve(answer);
    this.#opening.delete(topic);
    if (topic.id !== undefined)
      this.#connection.current?.unsubscribe(topic.method.unsubscribe, topic.id);
    topic.end();
    if (this.#topics.size === 0) this.#connection.disconnect();
    this.#report();
  }

  #lose(topic: Topic, why: string): void {
    this.#deps.log.warn({ method: topic.method.name }, `subscriptions ended, because ${why}`);
    this.#remove(topic, undefined);
  }

  #connect(): void {
    const { current } = this.#connection;
    if (this.#isClosed || current !== undefined || this.#topics.size === 0) return;
    if (this.#retry !== undefined) return;
    const { waitMs } = this.#connection;
    if (waitMs > 0) return this.#connectAfter(waitMs);
    const connection = this.#connection.open();
    if (connection === undefined) return;
    void connection.opened.then((isOpen) => {
      if (!isOpen || this.#connection.current !== connection) return;
      for (const topic of this.#topics.values()) this.#begin(topic);
    });
  }

  #connectAfter(ms: number): void {
    this.#retry = this.#deps.clock.after(ms, () => {
      this.#retry = undefined;
      this.#connect();
    });
  }

  /** Never rejects. */
  async #subscribe(topic: Topic, connection: FeedConnection): Promise<void> {
    if (!(await connection.opened) || topic.id !== undefined) return;
    const { method } = topic;
    // The id is set at once, so that a topic is not subscribed twice.
    topic.id = "";
    const answer = await connection.subscribe(method.name, "[]", () => (result) => {
      if (this.#connection.current !== connection) return;
      if (topic.isOfOtherChain(this.#deps.pool.chain)) return this.#lose(topic, newChain);
      if (method.kind === "finalized") this.#announce(result);
      topic.receive(result);
    });
    if (this.#connection.current !== connection || answer === undefined) return;
    if (answer.kind === "error") {
      topic.id = undefined;
      return this.#remove(topic, answer);
    }
    if (!this.#isCurrent(topic)) {
      return connection.unsubscribe(method.unsubscribe, answer.text);
    }
    topic.id = answer.text;
    this.#opening.get(topic)?.resolve(answer);
    this.#opening.delete(topic);
    this.#report();
  }

  /** Reports a finalized head, which has the hash of its parent. */
  #announce(result: string): void {
    const { node } = this.#connection;
    const head = parseOrUndefined(result);
    const number = blockNumber(head);
    if (node === undefined || number === undefined || !isObject(head)) return;
    const hash = typeof head.parentHash === "string" ? head.parentHash.toLowerCase() : "";
    this.#deps.pool.reference.announced(node, number, { number: number - 1, hash });
  }

  #move(): void {
    this.#metrics.moves.add(1);
    this.#report();
    for (const topic of this.#topics.values()) topic.moved();
    this.#endOverdue();
  }

  /** New clients get an error if no node has opened their subscription in time. */
  #endOverdue(): void {
    const now = this.#deps.clock.monotonic();
    for (const [topic, { since }] of this.#opening)
      if (now - since >= maxWaitMs) this.#remove(topic, undefined);
  }

  #report(): void {
    this.#metrics.subscriptions.set(this.#connection.current?.subscriptions ?? 0);
  }
}

function feedMetrics(upstream: string, metrics: Metrics) {
  const { gauge, counter } = upstreamMetrics(upstream, metrics);
  return {
    subscriptions: gauge(
      "sluice_ledger_node_subscriptions",
      "Subscriptions at the node, which clients share.",
    ),
    moves: counter(
      "sluice_ledger_subscription_moves_total",
      "Moves of all subscriptions to another node, or to the same node on a new connection.",
    ),
  };
}
