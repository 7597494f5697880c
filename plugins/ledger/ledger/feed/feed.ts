/**
 * The subscriptions of a pool. One WebSocket to one of its nodes carries all of them, and clients with equal parameters
 * share one subscription. If the node is lost or is no longer usable, all subscriptions move to another node. A
 * subscription whose notifications do not fit into a message ends without affecting the others: see storage-trials.ts.
 */
import type { Clock, Log, Memory, Metrics } from "sluice-gateway/plugin";
import type {
  LedgerSubscriptions,
  OpenedSubscription,
  SubscriptionEndReason,
  SubscriptionOpener,
} from "sluice-gateway/services";
import { isObject } from "sluice-gateway/toolkit";
import type { NodeHead, NodePool } from "../node-pool.ts";
import type { PoolConfig } from "../options.ts";
import { maxWaitMs } from "../height-waits.ts";
import { parseOrUndefined } from "../json-part.ts";
import { blockNumber } from "../pool/probe.ts";
import {
  messageTooLarge,
  type FeedAnswer,
  type FeedConnection,
  type FeedLimits,
} from "./feed-connection.ts";
import { feedMetrics, type FeedMetrics } from "./feed-metrics.ts";
import { SharedConnection } from "./shared-connection.ts";
import { AllStorageValues, type StorageValues } from "./storage-values.ts";
import { StorageTrials } from "./storage-trials.ts";
import type { FeedMethods } from "./subscription-methods.ts";
import { tooLargeError } from "./too-large.ts";
import { Topic, topicParams, type TopicOwner, type TopicParams } from "./topic.ts";

/** A subscription without clients is kept for this time, because a client often subscribes again. */
const unusedMs = 5_000;
/** Time until the next trial of a subscription that is open for clients, if no node has answered. */
const trialRetryMs = 5_000;
/**
 * Maximum number of different storage subscriptions. The others are a few that all clients share. A node accepts 1024
 * subscriptions per connection by default.
 */
const maxStorageTopics = 512;
const maxMessageBytes = 16 * 1_048_576;

const newChain = "the chain has changed or started again";
const invalidParams =
  '{"code":-32602,"message":"Invalid params: expected 1 to 1024 storage keys in hexadecimal"}';
const tooMany = '{"code":-32006,"message":"Too many different subscriptions"}';
const noMemory = '{"code":-32006,"message":"The values of subscriptions hold too much memory"}';
const unknownOpener: SubscriptionOpener = { key: "", workspace: "" };

export interface FeedParts {
  readonly upstream: Pick<
    PoolConfig,
    "name" | "connectMs" | "headersMs" | "idleMs" | "answerBytes"
  >;
  readonly methods: FeedMethods;
  readonly pool: Pick<NodePool, "targets" | "best" | "chain" | "reference">;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly memory: Memory;
}

export class Feed implements LedgerSubscriptions, TopicOwner {
  readonly subscribing: FeedMethods["subscribing"];
  readonly unsubscribing: FeedMethods["unsubscribing"];
  readonly #parts: FeedParts;
  readonly #limits: FeedLimits;
  readonly #metrics: FeedMetrics;
  readonly #topics = new Map<string, Topic>();
  /** The first answer of a node to each topic, for the clients that wait for it. */
  readonly #opening = new Map<
    Topic,
    PromiseWithResolvers<FeedAnswer> & { readonly since: number }
  >();
  readonly #connection: SharedConnection;
  readonly #trials: StorageTrials;
  readonly #values: AllStorageValues;
  /** Topics that are being tried. */
  readonly #trying = new Set<Topic>();
  #retry: Disposable | undefined;
  #isClosed = false;

  constructor(parts: FeedParts) {
    const { upstream, methods, metrics } = parts;
    this.#values = new AllStorageValues(parts.memory);
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
      onLost: (reason) => this.#move(reason),
      onReference: () => this.#connect(),
      isMissing: (head) => this.#isMissing(head),
    });
    this.#trials = new StorageTrials({ ...parts, limits: this.#limits });
  }

  nameOf({ name }: { readonly name: string }, params: string): string | undefined {
    const method = this.subscribing.get(name);
    const read = method && topicParams(method, params, this.#limits.messageBytes);
    return read && topicKey(name, read);
  }

  async open(
    { name }: { readonly name: string },
    params: string,
    opener = unknownOpener,
  ): Promise<OpenedSubscription> {
    const method = this.subscribing.get(name);
    const read = method && topicParams(method, params, this.#limits.messageBytes);
    if (method === undefined || read === undefined) return { kind: "error", error: invalidParams };
    const key = topicKey(name, read);
    // The client may have been told of this finalized block.
    const floor = method.kind === "finalized" ? this.#parts.pool.reference?.floor : undefined;
    let topic = this.#topics.get(key);
    if (topic === undefined) {
      const { params: normal } = read;
      if (method.kind === "storage" && this.#trials.isTooLarge({ method, params: normal }))
        return { kind: "error", error: tooLargeError };
      if (method.kind === "storage" && !this.#hasRoomFor(opener))
        return { kind: "error", error: tooMany };
      topic = new Topic(key, method, read, this, opener);
      this.#add(topic);
    }
    const subscription = topic.join();
    const answer = await this.#opening.get(topic)?.promise;
    const isOpen = this.#topics.get(key) === topic && !this.#opening.has(topic);
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
    this.#trials.close();
  }

  get best(): number | undefined {
    return this.#parts.pool.best;
  }

  get clock(): Clock {
    return this.#parts.clock;
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

  onTooLarge(topic: Topic): void {
    const { log } = this.#parts;
    log.warn(
      { method: topic.method.name },
      "a storage subscription ended, because it is too large",
    );
    this.#remove(topic, { kind: "error", text: tooLargeError }, "tooLarge");
  }

  onNoMemory(topic: Topic): void {
    this.#remove(topic, { kind: "error", text: noMemory });
  }

  valuesOf(caller: string): StorageValues {
    return this.#values.of(caller);
  }

  /** A workspace may have half of what the others leave. */
  #hasRoomFor({ workspace }: SubscriptionOpener): boolean {
    let all = 0;
    let own = 0;
    for (const { isStorage, opener } of this.#topics.values()) {
      if (!isStorage) continue;
      all++;
      if (opener.workspace === workspace) own++;
    }
    return own < (maxStorageTopics - (all - own)) / 2;
  }

  onUnused(topic: Topic): void {
    this.#parts.clock.after(unusedMs, () => {
      if (topic.isUnused && this.#topics.get(topic.key) === topic) this.#remove(topic, undefined);
    });
  }

  /** Checks every topic, because each one notes the head for its next check. */
  #isMissing(head: NodeHead): boolean {
    let isMissing = false;
    for (const topic of this.#topics.values()) if (topic.checkHead(head)) isMissing = true;
    return isMissing;
  }

  #add(topic: Topic): void {
    this.#topics.set(topic.key, topic);
    const { clock } = this.#parts;
    this.#opening.set(topic, { ...Promise.withResolvers<FeedAnswer>(), since: clock.monotonic() });
    clock.after(maxWaitMs, () => {
      if (this.#connection.current === undefined && !topic.needsTrial) this.#endOverdue();
    });
    // If no node can be reached, the clients must not wait without a limit.
    clock.after(this.#limits.connectMs + this.#limits.answerMs, () => {
      if (this.#opening.has(topic)) this.#remove(topic, undefined);
    });
    this.#connect();
    this.#begin(topic);
  }

  /** Opens a topic at the node, as soon as there is a connection. */
  #begin(topic: Topic): void {
    const { current } = this.#connection;
    if (topic.needsTrial) void this.#try(topic);
    else if (current !== undefined) void this.#subscribe(topic, current);
  }

  /** Never rejects. */
  async #try(topic: Topic): Promise<void> {
    const isWanted = (): boolean => this.#topics.get(topic.key) === topic;
    if (!topic.needsTrial || this.#trying.has(topic) || !isWanted()) return;
    this.#trying.add(topic);
    const { method, params } = topic;
    const outcome = await this.#trials.run({ method, params, isWanted });
    this.#trying.delete(topic);
    if (!isWanted()) return;
    switch (outcome.kind) {
      case "fits":
        topic.needsTrial = false;
        return this.#begin(topic);
      case "tooLarge":
        return this.onTooLarge(topic);
      case "error":
        return this.#remove(topic, outcome);
      case "failed":
      default:
        if (this.#opening.has(topic)) return this.#remove(topic, undefined);
        this.#parts.clock.after(trialRetryMs, () => void this.#try(topic));
    }
  }

  /**
   * Ends a topic. `answer`: the refusal for clients that wait for the topic to open. `reason`: the reason for clients for
   * which it is open, if it is not the loss of the node.
   */
  #remove(topic: Topic, answer: FeedAnswer, reason?: SubscriptionEndReason): void {
    if (this.#topics.get(topic.key) !== topic) return;
    this.#topics.delete(topic.key);
    this.#opening.get(topic)?.resolve(answer);
    this.#opening.delete(topic);
    if (topic.id !== undefined)
      this.#connection.current?.unsubscribe(topic.method.unsubscribe, topic.id);
    topic.end(reason);
    if (this.#topics.size === 0) this.#connection.disconnect();
    this.#report();
  }

  /** Ends the subscriptions of a topic, because they cannot continue. */
  #lose(topic: Topic, why: string): void {
    this.#parts.log.warn({ method: topic.method.name }, `subscriptions ended, because ${why}`);
    this.#remove(topic, undefined);
  }

  /** Connects to a node if there is no connection and no attempt is planned. */
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
    this.#retry = this.#parts.clock.after(ms, () => {
      this.#retry = undefined;
      this.#connect();
    });
  }

  /** Never rejects. */
  async #subscribe(topic: Topic, connection: FeedConnection): Promise<void> {
    if (!(await connection.opened) || topic.id !== undefined) return;
    const { method, params } = topic;
    // The id is set at once, so that a topic is not subscribed twice.
    topic.id = "";
    const answer = await connection.subscribe(method.name, params, () => (result) => {
      if (this.#connection.current !== connection) return;
      if (topic.isOfOtherChain(this.#parts.pool.chain)) return this.#lose(topic, newChain);
      if (method.kind === "finalized") this.#announce(result);
      topic.receive(result);
    });
    if (this.#connection.current !== connection || answer === undefined) return;
    if (answer.kind === "error") {
      topic.id = undefined;
      return this.#remove(topic, answer);
    }
    if (this.#topics.get(topic.key) !== topic) {
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
    this.#parts.pool.reference?.announced(node, number, { number: number - 1, hash });
  }

  /** Moves all subscriptions to the next reference node. */
  #move(reason: string): void {
    this.#metrics.moves.add(1);
    this.#report();
    for (const topic of this.#topics.values()) {
      topic.moved();
      // It is not known which topic the message belonged to. A trial finds out.
      if (reason === messageTooLarge) topic.needsTrial = topic.isStorage;
    }
    this.#endOverdue();
  }

  /** New clients get an error if no node has opened their subscription in time. */
  #endOverdue(): void {
    const now = this.#parts.clock.monotonic();
    for (const [topic, { since }] of this.#opening)
      if (now - since >= maxWaitMs) this.#remove(topic, undefined);
  }

  #report(): void {
    this.#metrics.subscriptions.set(this.#connection.current?.subscriptions ?? 0);
  }
}

function topicKey(name: string, { params }: TopicParams): string {
  return `${name} ${params}`;
}
