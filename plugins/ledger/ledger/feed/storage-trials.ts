/**
 * Tries storage subscriptions before they are opened on the WebSocket that all clients share. The first notification of
 * a storage subscription has the values of all its keys. A message above the limit ends the connection, so each trial
 * has its own connection: a client that subscribes to too much does not disturb the subscriptions of the others.
 */
import { createHash } from "node:crypto";
import type { Clock, Log } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/toolkit";
import type { NodePool } from "../node-pool.ts";
import type { FeedLimits } from "./feed-connection.ts";
import { NodeLinks, type NodeLink } from "./node-links.ts";
import { OwnSubscription } from "./own-subscription.ts";
import type { FeedMethod } from "./subscription-methods.ts";

/** Maximum number of trials at the same time. Further ones wait. */
const maxTrials = 4;
/** Number of nodes that must exceed the limit before a subscription is refused, because one node can lie. */
const maxNodes = 2;
/** Time for which a subscription that was too large is refused without another trial. */
const tooLargeMs = 60_000;
/** Maximum number of subscriptions that are remembered as too large. */
const maxTooLarge = 1024;

/** The outcome of a trial. `error`: the node refuses the subscription. `failed`: no node has answered. */
export type TrialOutcome =
  | { readonly kind: "fits" | "tooLarge" | "failed" }
  | { readonly kind: "error"; readonly text: string };

export interface StorageTrialsParts {
  readonly pool: Pick<NodePool, "targets">;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: FeedLimits;
}

export interface TriedSubscription {
  readonly method: FeedMethod;
  /** JSON text of an array. */
  readonly params: string;
}

/** A subscription to try. */
export interface WantedTrial extends TriedSubscription {
  /** False if the outcome is not needed any more. */
  readonly isWanted: () => boolean;
}

export class StorageTrials {
  readonly #clock: Clock;
  readonly #answerMs: number;
  readonly #links: NodeLinks;
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  /** Monotonic times at which subscriptions were too large. */
  readonly #tooLarge = new BoundedMap<string, number>(maxTooLarge);

  constructor(parts: StorageTrialsParts) {
    this.#clock = parts.clock;
    this.#answerMs = parts.limits.answerMs;
    this.#links = new NodeLinks({
      ...parts,
      maxPerLink: 1,
      // Each trial can have a connection per node, because the one to the first node is kept while the second node is
      // asked.
      maxLinks: maxNodes * maxTrials,
      lostMessage: "the connection on which a storage subscription was tried is lost",
    });
  }

  /** Returns true if the subscription was too large at its last trial, less than a minute ago. */
  isTooLarge(subscription: TriedSubscription): boolean {
    const at = this.#tooLarge.peek(digestOf(subscription));
    return at !== undefined && this.#clock.monotonic() < at + tooLargeMs;
  }

  /** Subscribes at a node, waits for the first notification, and unsubscribes. Never rejects. */
  async run(trial: WantedTrial): Promise<TrialOutcome> {
    if (this.#running >= maxTrials) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    } else this.#running++;
    try {
      if (!trial.isWanted()) return { kind: "failed" };
      const outcome = await this.#askNodes(trial);
      if (outcome.kind === "tooLarge") this.#tooLarge.set(digestOf(trial), this.#clock.monotonic());
      return outcome;
    } finally {
      // The next trial takes over the place of this one.
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
    }
  }

  close(): void {
    this.#links.close();
  }

  async #askNodes(trial: WantedTrial): Promise<TrialOutcome> {
    const asked = new Set<string>();
    let isTooLarge = false;
    while (asked.size < maxNodes) {
      const link = this.#links.take(asked.size === 0 ? {} : { except: asked });
      if (link === undefined || link === "full") break;
      asked.add(link.target.label);
      const outcome = await this.#ask(link, trial);
      this.#links.release(link);
      if (outcome.kind === "fits" || outcome.kind === "error") return outcome;
      isTooLarge ||= outcome.kind === "tooLarge";
    }
    return { kind: isTooLarge ? "tooLarge" : "failed" };
  }

  async #ask(link: NodeLink, { method, params }: WantedTrial): Promise<TrialOutcome> {
    const { connection, open } = link;
    const lost = (): TrialOutcome => ({ kind: connection.isOverLimit ? "tooLarge" : "failed" });
    if (!(await connection.opened)) return lost();
    const { promise, resolve } = Promise.withResolvers<TrialOutcome>();
    const rules = { isLast: () => true, maxWaiting: 1 };
    const subscription = new OwnSubscription(rules, () => open.delete(subscription));
    subscription.start({
      onNotification: () => resolve({ kind: "fits" }),
      onEnd: () => resolve(lost()),
    });
    const answer = await connection.subscribe(method.name, params, () => {
      open.add(subscription);
      return (result) => subscription.receive(result);
    });
    if (answer === undefined) return lost();
    if (answer.kind === "error") return { kind: "error", text: answer.text };
    using _timeout = this.#clock.after(this.#answerMs, () => subscription.lose());
    const outcome = await promise;
    connection.forget(answer.text);
    // The node limits the number of subscriptions, so this one is ended there before the next one begins.
    await connection.request(method.unsubscribe, `[${answer.text}]`);
    return outcome;
  }
}

/** Returns a short text, because the parameters may be as long as a message. */
function digestOf({ method, params }: TriedSubscription): string {
  return createHash("sha256").update(`${method.name} ${params}`).digest("base64");
}
