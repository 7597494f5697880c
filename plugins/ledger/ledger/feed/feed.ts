/**
 * The subscriptions of a pool. One WebSocket to one of its nodes carries all of them, and clients that want the same share
 * one. If the node is lost or is no longer usable, all subscriptions move to another node.
 */
import type { Clock, Log, Metrics } from "sluice-gateway/plugin";
import type { LedgerSubscriptions, OpenedSubscription } from "sluice-gateway/services";
import type { NodePool } from "../node-pool.ts";
import type { PoolConfig } from "../options.ts";
import type { FeedAnswer, FeedConnection, FeedLimits } from "./feed-connection.ts";
import { feedMetrics, type FeedMetrics } from "./feed-metrics.ts";
import { SharedConnection } from "./shared-connection.ts";
import type { FeedMethods } from "./subscription-methods.ts";
import { Topic, topicParams, type TopicOwner } from "./topic.ts";

/** A subscription without clients is kept for this time, because a client often subscribes again. */
const unusedMs = 5_000;
const retryMs = 200;
const maxRetryMs = 5_000;
/** Maximum number of different subscriptions. A node accepts 1024 per connection by default. */
const maxTopics = 512;
const maxMessageBytes = 16 * 1_048_576;

const invalidParams =
  '{"code":-32602,"message":"Invalid params: expected 1 to 1024 storage keys in hexadecimal"}';
const tooMany = '{"code":-32006,"message":"Too many different subscriptions"}';

export interface FeedParts {
  readonly upstream: Pick<
    PoolConfig,
    "name" | "connectMs" | "headersMs" | "idleMs" | "answerBytes"
  >;
  readonly methods: FeedMethods;
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

export class Feed implements LedgerSubscriptions, TopicOwner {
  readonly subscribing: FeedMethods["subscribing"];
  readonly unsubscribing: FeedMethods["unsubscribing"];
  readonly #parts: FeedParts;
  readonly #limits: FeedLimits;
  readonly #metrics: FeedMetrics;
  readonly #topics = new Map<string, Topic>();
  /** The first answers of a node that clients wait for, by topic. */
  readonly #opening = new Map<Topic, PromiseWithResolvers<FeedAnswer>>();
  readonly #connection: SharedConnection;
  #failures = 0;
  #retry: Disposable | undefined;
  #isClosed = false;

  constructor(parts: FeedParts) {
    const { upstream, methods, metrics } = parts;
    this.#parts = parts;
    this.subscribing = methods.subscribing;
    this.unsubscribing = methods.unsubscribing;
    this.#limits = {
      connectMs: upstream.connectMs,
      answerMs: upstream.headersMs + upstream.idleMs,
      messageBytes: Math.min(upstream.answerBytes, maxMessageBytes),
    };
    this.#metrics = feedMetrics(upstream.name, metrics);
    this.#connection = new SharedConnection({
      ...parts,
      limits: this.#limits,
      lostMessage: "the subscriptions move, because their node is lost",
      onLost: () => this.#move(),
    });
  }

  async open({ name }: { readonly name: string }, params: string): Promise<OpenedSubscription> {
    const method = this.subscribing.get(name);
    const read = method && topicParams(method, params);
    if (method === undefined || read === undefined) return { kind: "error", error: invalidParams };
    const key = `${name} ${read.params}`;
    let topic = this.#topics.get(key);
    if (topic === undefined) {
      if (this.#topics.size >= maxTopics) return { kind: "error", error: tooMany };
      topic = new Topic(key, method, read, this);
      this.#add(topic);
    }
    const subscription = topic.join();
    const answer = await this.#opening.get(topic)?.promise;
    const isOpen = this.#topics.get(key) === topic && !this.#opening.has(topic);
    if (isOpen) return { kind: "open", subscription };
    subscription.close();
    return answer?.kind === "error" ? { kind: "error", error: answer.text } : { kind: "failed" };
  }

  close(): void {
    this.#isClosed = true;
    this.#retry?.[Symbol.dispose]();
    for (const topic of this.#topics.values()) this.#remove(topic, undefined);
    this.#connection.close();
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
    this.#parts.log.warn(
      { method: topic.method.name },
      "subscriptions ended, because no node was usable for too long",
    );
    this.#remove(topic, undefined);
  }

  onUnused(topic: Topic): void {
    this.#parts.clock.after(unusedMs, () => {
      if (topic.isUnused && this.#topics.get(topic.key) === topic) this.#remove(topic, undefined);
    });
  }

  #add(topic: Topic): void {
    this.#topics.set(topic.key, topic);
    this.#opening.set(topic, Promise.withResolvers<FeedAnswer>());
    // If no node can be reached, the clients must not wait without a limit.
    this.#parts.clock.after(this.#limits.connectMs + this.#limits.answerMs, () => {
      if (this.#opening.has(topic)) this.#remove(topic, undefined);
    });
    const { current } = this.#connection;
    if (current === undefined) this.#connect();
    else void this.#subscribe(topic, current);
  }

  /** Ends a topic. `answer`: the node's refusal, if the topic has never been open. */
  #remove(topic: Topic, answer: FeedAnswer): void {
    if (this.#topics.get(topic.key) !== topic) return;
    this.#topics.delete(topic.key);
    this.#opening.get(topic)?.resolve(answer);
    this.#opening.delete(topic);
    if (topic.id !== undefined)
      this.#connection.current?.unsubscribe(topic.method.unsubscribe, topic.id);
    topic.end();
    if (this.#topics.size === 0) this.#connection.disconnect();
    this.#report();
  }

  #connect(): void {
    const { current } = this.#connection;
    if (this.#isClosed || current !== undefined || this.#topics.size === 0) return;
    this.#retry?.[Symbol.dispose]();
    this.#retry = undefined;
    const connection = this.#connection.open();
    if (connection === undefined) return this.#retryLater();
    void connection.opened.then((isOpen) => {
      if (!isOpen || this.#connection.current !== connection) return;
      for (const topic of this.#topics.values()) void this.#subscribe(topic, connection);
    });
  }

  /** Never rejects. */
  async #subscribe(topic: Topic, connection: FeedConnection): Promise<void> {
    if (!(await connection.opened) || topic.id !== undefined) return;
    const { method, params } = topic;
    // The id is set at once, so that a topic is not subscribed twice.
    topic.id = "";
    const answer = await connection.subscribe(method.name, params, () => (result) => {
      if (this.#connection.current === connection) topic.receive(result);
    });
    if (this.#connection.current !== connection || answer === undefined) return;
    if (answer.kind === "error") {
      topic.id = undefined;
      return this.#remove(topic, answer);
    }
    this.#failures = 0;
    if (this.#topics.get(topic.key) !== topic) {
      return connection.unsubscribe(method.unsubscribe, answer.text);
    }
    topic.id = answer.text;
    this.#opening.get(topic)?.resolve(answer);
    this.#opening.delete(topic);
    this.#report();
  }

  /** Moves all subscriptions to another node, or to the same one if there is no other. */
  #move(): void {
    this.#metrics.moves.add(1);
    this.#report();
    for (const topic of this.#topics.values()) topic.moved();
    if (this.#failures++ === 0) return this.#connect();
    // Every node has been tried, so new clients get an error instead of waiting. The others wait for a node.
    if (this.#failures > this.#connection.nodes)
      for (const topic of this.#opening.keys()) this.#remove(topic, undefined);
    this.#retryLater();
  }

  #retryLater(): void {
    const ms = Math.min(maxRetryMs, retryMs * 2 ** Math.min(this.#failures, 8));
    this.#retry?.[Symbol.dispose]();
    this.#retry = this.#parts.clock.after(ms, () => this.#connect());
  }

  #report(): void {
    this.#metrics.subscriptions.set(this.#connection.current?.subscriptions ?? 0);
  }
}
