/** One subscription at the node, and the clients that share it. */
import type { Clock } from "sluice-gateway/plugin";
import type { ClientSubscription, NotificationListener } from "sluice-gateway/services";
import { parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { HeightWaits } from "../height-waits.ts";
import type { NodeHead } from "../node-pool.ts";
import { blockNumber } from "../pool/probe.ts";
import { HeadState } from "./head-state.ts";
import {
  EventState,
  ValueState,
  type HeaderSource,
  type NotificationState,
} from "./notification-state.ts";
import type { FeedMethod, SubscriptionKind } from "../websocket-methods.ts";

/** Maximum number of notifications that wait while missed headers are fetched. */
const maxWaiting = 1024;

const createState: Readonly<Record<SubscriptionKind, () => NotificationState>> = {
  heads: () => new HeadState("new"),
  allHeads: () => new HeadState("all"),
  finalized: () => new HeadState("finalized"),
  value: () => new ValueState(),
  events: () => new EventState(),
  storage: () => new EventState(),
};

export interface TopicOwner extends HeaderSource {
  readonly clock: Clock;
  onInvalid(reason: string): void;
  onUnused(topic: Topic): void;
  onGap(topic: Topic): void;
}

export class Topic {
  readonly method: FeedMethod;
  /** The node's id of the subscription as JSON text. Undefined while there is none. */
  id: string | undefined;
  readonly #state: NotificationState;
  readonly #owner: TopicOwner;
  readonly heights: HeightWaits;
  readonly #listeners = new Set<NotificationListener>();
  #clients = 0;
  #waiting: string[] = [];
  #isAccepting = false;
  #hasEnded = false;
  /** Clients that were started while a notification was being accepted. They start after it. */
  #starting: (() => void)[] = [];
  /** Increases with every move. Notifications of a node before the last move are discarded. */
  #era = 0;
  /** `Pool.chain` at the first notification for which it was known. */
  #chain: number | undefined;
  /** Number of the node's own head when it was first compared. */
  #firstHeight: number | undefined;
  /** Number of the last head that the node had notified of at the last check. */
  #checkedHeight: number | undefined;

  constructor(method: FeedMethod, owner: TopicOwner) {
    this.method = method;
    this.#state = createState[method.kind]();
    this.#owner = owner;
    this.heights = new HeightWaits(owner.clock);
  }

  get isUnused(): boolean {
    return this.#clients === 0;
  }

  /**
   * Compares the node's own head with the heads that it has sent. Returns true if the node has sent neither its own head
   * nor any new head since the last check.
   */
  checkHead({ best, finalized = -1 }: NodeHead): boolean {
    if (this.id === undefined || !(this.#state instanceof HeadState)) return false;
    const height = this.method.kind === "finalized" ? finalized : best;
    // Not every node starts with its current head.
    this.#firstHeight ??= height;
    const last = this.#state.height ?? this.#firstHeight;
    const isNew = last !== this.#checkedHeight;
    this.#checkedHeight = last;
    return !isNew && last < height;
  }

  /** Returns true if earlier notifications were of another chain. `chain`: see `Pool.chain`. */
  isOfOtherChain(chain: number): boolean {
    if (chain === 0) return false;
    this.#chain ??= chain;
    return this.#chain !== chain;
  }

  join(): ClientSubscription {
    this.#clients++;
    let listener: NotificationListener | undefined;
    let isClosed = false;
    return {
      start: (receiver) => {
        const begin = (): void => {
          if (isClosed) return;
          if (this.#hasEnded) return receiver.onEnd();
          listener = receiver;
          const { current } = this.#state;
          this.#listeners.add(receiver);
          if (current !== undefined) receiver.onNotification(current, false);
        };
        if (this.#isAccepting) this.#starting.push(begin);
        else begin();
      },
      close: () => {
        if (isClosed) return;
        isClosed = true;
        if (listener !== undefined) this.#listeners.delete(listener);
        this.#clients--;
        if (this.#clients === 0) this.#owner.onUnused(this);
      },
    };
  }

  moved(): void {
    this.#era++;
    this.#firstHeight = undefined;
    this.id = undefined;
    this.#waiting = [];
    this.#state.moved();
  }

  end(): void {
    this.#hasEnded = true;
    this.#waiting = [];
    this.heights.close();
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener.onEnd();
  }

  receive(result: string): void {
    if (this.#hasEnded) return;
    if (this.#waiting.length >= maxWaiting) return this.#owner.onInvalid("too many notifications");
    this.#waiting.push(result);
    if (!this.#isAccepting) void this.#acceptAll();
  }

  /** Never rejects: `#accept` handles what the states throw, which would be a bug. */
  async #acceptAll(): Promise<void> {
    this.#isAccepting = true;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await this.#accept(next).catch(() => this.#owner.onInvalid("unreadable notification"));
      for (const begin of this.#starting.splice(0)) begin();
    }
    this.#isAccepting = false;
  }

  async #accept(result: string): Promise<void> {
    const era = this.#era;
    const accepted = await this.#state.accept(result, this.#owner);
    // The state has not been informed of a move that happened in the meantime.
    if (era !== this.#era) this.#state.moved();
    if (typeof accepted === "string") {
      if (era !== this.#era) return;
      if (accepted === "gap") this.#owner.onGap(this);
      else this.#owner.onInvalid(`invalid ${this.method.notification}`);
      return;
    }
    for (const each of accepted)
      for (const listener of this.#listeners) listener.onNotification(each, false);
    const { current } = this.#state;
    if (this.method.kind === "finalized")
      this.heights.reached(blockNumber(parseOrUndefined(current)) ?? -1);
  }
}
