/**
 * Subscriptions to storage. The size of their notifications depends on what a client asks for, and a message above the
 * limit ends the connection to the node. So clients do not share them, and their connections are not those of the other
 * subscriptions: a connection has the storage subscriptions of one workspace, as long as there are enough connections. If it is
 * lost, its subscriptions continue on another one with the values of all their keys.
 */
import type {
  ClientSubscription,
  NotificationListener,
  OpenedSubscription,
  SubscriptionEndReason,
  SubscriptionOpener,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { elementOf } from "../json-part.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import type { Reference } from "../pool/reference.ts";
import { maxWaitMs } from "../height-waits.ts";
import type { FeedLimits } from "./feed-connection.ts";
import { NodeLinks, type NodeLink } from "./node-links.ts";
import type { FeedMethod } from "../websocket-methods.ts";

/** Maximum number of storage subscriptions of a pool. A node accepts 1024 per connection by default. */
const maxSubscriptions = 512;
const maxKeys = 1024;
const maxLinks = 32;
const maxWaiting = 64;
/** A subscription is too large if its first notification has ended this number of connections, because one node can lie. */
const maxOversized = 2;
const retryMs = 200;
const maxRetryMs = 5_000;

const tooMany = '{"code":-32006,"message":"Too many different subscriptions"}';
/** The code is the one with which Substrate nodes refuse an answer above their limit. */
export const tooLargeError =
  '{"code":-32008,"message":"Response is too big: the values do not fit into a message"}';

/**
 * Returns the distinct keys in lower case and in a fixed order. A subscription to all keys is not allowed. Undefined if the
 * parameters are not valid.
 */
export function keysOf(params: string): readonly string[] | undefined {
  const named = parseOrUndefined(params.startsWith("{") ? params : undefined);
  const keys = isObject(named) ? named["keys"] : parseOrUndefined(elementOf(params, 0));
  if (!Array.isArray(keys) || keys.length === 0 || keys.length > maxKeys) return undefined;
  const isKey = (key: unknown): key is string =>
    typeof key === "string" && /^0x(?:[0-9a-f]{2})*$/i.test(key);
  if (!keys.every(isKey)) return undefined;
  return [...new Set(keys.map((key) => key.toLowerCase()))].toSorted();
}

interface StorageSubscriptionsDeps extends LedgerDeps {
  readonly limits: FeedLimits;
}

export class StorageSubscriptions {
  readonly #deps: StorageSubscriptionsDeps;
  readonly #links: NodeLinks;
  readonly #open = new Set<StorageSubscription>();
  readonly #listener: Disposable;

  constructor(deps: StorageSubscriptionsDeps) {
    const { pool, clock, log, limits } = deps;
    this.#deps = deps;
    const { reference } = pool;
    this.#links = new NodeLinks({
      // The reference first. Another node is used if the reference has broken a connection.
      pool: {
        targets: () => {
          const label = reference.node?.label;
          const targets = pool.targets();
          return targets.toSorted((a, b) => Number(b.label === label) - Number(a.label === label));
        },
      },
      clock,
      log,
      limits,
      maxPerLink: maxSubscriptions,
      maxLinks,
      lostMessage: "storage subscriptions move, because their connection is lost",
    });
    this.#listener = reference.onChange(() => this.#onReference(reference));
  }

  async open(
    method: FeedMethod,
    keys: readonly string[],
    opener: SubscriptionOpener,
  ): Promise<OpenedSubscription> {
    if (!this.#hasRoomFor(opener)) return { kind: "error", error: tooMany };
    const { clock, limits } = this.#deps;
    const subscription: StorageSubscription = new StorageSubscription(opener, {
      ...this.#deps,
      method,
      params: JSON.stringify([keys]),
      links: this.#links,
      onClose: () => this.#open.delete(subscription),
    });
    this.#open.add(subscription);
    using _timer = clock.after(limits.connectMs + limits.answerMs, () => subscription.end());
    return await subscription.opened();
  }

  close(): void {
    this.#listener[Symbol.dispose]();
    for (const subscription of this.#open) subscription.end();
    this.#links.close();
  }

  /** A workspace may have half of what the others leave. */
  #hasRoomFor({ workspace }: SubscriptionOpener): boolean {
    const all = [...this.#open];
    const own = all.filter(({ opener }) => opener.workspace === workspace).length;
    return own < (maxSubscriptions - (all.length - own)) / 2;
  }

  #onReference({ node }: Reference): void {
    if (node !== undefined) this.#links.keepOnly(node.label);
  }
}

interface StorageSubscriptionDeps extends StorageSubscriptionsDeps {
  readonly method: FeedMethod;
  /** JSON text of an array with a list of keys. */
  readonly params: string;
  readonly links: NodeLinks;
  readonly onClose: () => void;
}

/** A subscription of one client. It is `opening` until the first notification has arrived. */
class StorageSubscription implements ClientSubscription {
  readonly opener: SubscriptionOpener;
  readonly #deps: StorageSubscriptionDeps;
  readonly #result = Promise.withResolvers<OpenedSubscription>();
  readonly #since: number;
  #state: "opening" | "open" | "ended" = "opening";
  #link: NodeLink | undefined;
  /** The node's id of the subscription as JSON text. Empty before the node has answered. */
  #id = "";
  /** True if this connection has sent a notification. */
  #hasBegun = false;
  #oversized = 0;
  /** Number of connections that were lost without a notification. */
  #failures = 0;
  #chain = 0;
  #listener: NotificationListener | undefined;
  #waiting: string[] = [];

  constructor(opener: SubscriptionOpener, deps: StorageSubscriptionDeps) {
    this.opener = opener;
    this.#deps = deps;
    this.#since = deps.clock.monotonic();
  }

  opened(): Promise<OpenedSubscription> {
    void this.#connect();
    return this.#result.promise;
  }

  start(listener: NotificationListener): void {
    if (this.#state === "ended") return listener.onEnd();
    this.#listener = listener;
    for (const result of this.#waiting.splice(0)) listener.onNotification(result, false);
  }

  close(): void {
    this.#listener = undefined;
    this.end();
  }

  /** `error`: the refusal for a client that waits, as JSON text. `reason`: for a client whose subscription is open. */
  end(error?: string, reason?: SubscriptionEndReason): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    this.#waiting = [];
    const link = this.#link;
    if (this.#id !== "") link?.connection.unsubscribe(this.#deps.method.unsubscribe, this.#id);
    this.#release();
    this.#deps.onClose();
    this.#result.resolve(error === undefined ? { kind: "failed" } : { kind: "error", error });
    this.#listener?.onEnd(reason);
  }

  lose(): void {
    const isOversized = this.#link?.connection.isOverLimit === true && !this.#hasBegun;
    this.#oversized = isOversized ? this.#oversized + 1 : 0;
    this.#failures = this.#hasBegun ? 0 : this.#failures + 1;
    this.#release();
    if (this.#oversized >= maxOversized) return this.end(tooLargeError, "tooLarge");
    const { clock } = this.#deps;
    if (this.#state === "opening" && clock.monotonic() - this.#since >= maxWaitMs)
      return this.end();
    const maxMs = this.#state === "opening" ? retryMs : maxRetryMs;
    const ms = Math.min(maxMs, retryMs * 2 ** (this.#failures - 2));
    if (this.#failures < 2) void this.#connect();
    else clock.after(ms, () => void this.#connect());
  }

  /** Never rejects. */
  async #connect(): Promise<void> {
    if (this.#state === "ended") return;
    const { links, method, params } = this.#deps;
    const link = links.take({ group: this.opener.workspace });
    if (link === undefined || link === "full") return this.lose();
    this.#link = link;
    link.open.add(this);
    const isCurrent = (): boolean => this.#link === link;
    if (!(await link.connection.opened) || !isCurrent()) return;
    const answer = await link.connection.subscribe(method.name, params, (id) => {
      if (isCurrent()) this.#id = id;
      return (result) => {
        if (isCurrent()) this.#receive(result);
      };
    });
    if (!isCurrent() && answer?.kind === "result")
      link.connection.unsubscribe(method.unsubscribe, answer.text);
    else if (isCurrent() && answer?.kind === "error") this.end(answer.text);
  }

  #receive(result: string): void {
    const { chain } = this.#deps.pool;
    this.#chain ||= chain;
    if (this.#chain !== chain) return this.end();
    this.#hasBegun = true;
    this.#failures = 0;
    if (this.#state === "opening") {
      this.#state = "open";
      this.#result.resolve({ kind: "open", subscription: this });
    }
    if (this.#listener !== undefined) this.#listener.onNotification(result, false);
    else if (this.#waiting.push(result) > maxWaiting) this.end();
  }

  #release(): void {
    const link = this.#link;
    this.#link = undefined;
    this.#id = "";
    this.#hasBegun = false;
    if (link === undefined) return;
    link.open.delete(this);
    this.#deps.links.release(link);
  }
}
