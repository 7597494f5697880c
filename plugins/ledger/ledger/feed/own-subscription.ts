/** A subscription at a node that belongs to one client. It keeps its notifications until the client is ready. */
import type {
  ClientSubscription,
  NotificationListener,
  SubscriptionEndReason,
} from "sluice-gateway/services";

export interface OwnSubscriptionRules {
  /** Returns true if the node sends nothing after this notification. */
  readonly isLast: (result: string) => boolean;
  /** Maximum number of notifications that wait for `start`. */
  readonly maxWaiting: number;
}

export class OwnSubscription implements ClientSubscription {
  readonly #rules: OwnSubscriptionRules;
  readonly #onClose: () => void;
  #listener: NotificationListener | undefined;
  #waiting: string[] = [];
  #hasEnded = false;
  #isLost = false;
  #endReason: SubscriptionEndReason | undefined;

  /** `onClose`: called once, when the node may forget the subscription. */
  constructor(rules: OwnSubscriptionRules, onClose: () => void) {
    this.#rules = rules;
    this.#onClose = onClose;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  start(listener: NotificationListener): void {
    this.#listener = listener;
    for (const result of this.#waiting.splice(0)) this.receive(result);
    if (this.#isLost) this.#reportLoss();
  }

  close(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#listener = undefined;
    this.#waiting = [];
    this.#onClose();
  }

  receive(result: string): void {
    if (this.#hasEnded) return;
    const listener = this.#listener;
    if (listener === undefined) {
      if (this.#waiting.length < this.#rules.maxWaiting) this.#waiting.push(result);
      else this.#isLost = true;
      return;
    }
    const isLast = this.#rules.isLast(result);
    if (isLast) this.close();
    listener.onNotification(result, isLast);
  }

  lose(reason?: SubscriptionEndReason): void {
    this.#isLost = true;
    this.#endReason ??= reason;
    if (this.#listener !== undefined) this.#reportLoss();
  }

  #reportLoss(): void {
    if (this.#hasEnded) return;
    const listener = this.#listener;
    this.close();
    listener?.onEnd(this.#endReason);
  }
}
