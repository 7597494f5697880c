/**
 * The notifications of one connection. A notification is sent after its charge has been written to disk. Notifications
 * that arrive while a charge is being written are charged together.
 */
import type { SubscriptionMethod } from "sluice-gateway/services";
import { unavailable, type Refusal } from "./call-replies.ts";
import type { Payer, Payment } from "./caller.ts";

export interface NotifiedSubscription {
  readonly id: string;
  readonly method: SubscriptionMethod;
  readonly isOpen: boolean;
  refuse(refusal: Refusal): void;
}

interface Notification {
  readonly to: NotifiedSubscription;
  readonly result: string;
  readonly resultBytes: number;
  readonly onSent: (() => void) | undefined;
}

export interface PaidNotificationsDeps {
  readonly payer: Payer;
  readonly send: (message: string) => void;
  /** Called before a notification is added. `bytes`: the number of bytes that already wait to be charged. */
  readonly onAdd: (bytes: number) => void;
  readonly onSent: () => void;
  readonly onError: (error: unknown) => void;
}

let turn: Promise<void> | undefined;

/** Resolves after the events of this turn of the event loop. All connections wait for the same promise. */
function turnOfEventLoop(): Promise<void> {
  return (turn ??= new Promise((resolve) =>
    setImmediate(() => {
      turn = undefined;
      resolve();
    }),
  ));
}

export class PaidNotifications {
  readonly #deps: PaidNotificationsDeps;
  #waiting: Notification[] = [];
  #waitingBytes = 0;
  #isClosed = false;
  #sending: Promise<void> | undefined;

  constructor(deps: PaidNotificationsDeps) {
    this.#deps = deps;
  }

  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** `result`: JSON text. `onSent`: called after the notification was sent, unless the subscription ends first. */
  add(to: NotifiedSubscription, result: string, onSent?: () => void): void {
    this.#deps.onAdd(this.#waitingBytes);
    if (this.#isClosed) return;
    const resultBytes = bytesOf(result);
    this.#waiting.push({ to, result, resultBytes, onSent });
    this.#waitingBytes += resultBytes;
    this.#sending ??= this.#sendAll();
  }

  /** Discards notifications that have not been sent. Resolves when all charges have been written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#waiting = [];
    await this.#sending;
  }

  /** Never rejects. */
  async #sendAll(): Promise<void> {
    // A node often sends several notifications at once, such as the three of a new block. They are charged together.
    await turnOfEventLoop();
    try {
      while (this.#waiting.length > 0 && !this.#isClosed) {
        const batch = this.#waiting;
        this.#waiting = [];
        await this.#sendPaid(batch);
        for (const { resultBytes } of batch) this.#waitingBytes -= resultBytes;
        this.#deps.onSent();
      }
    } catch (error) {
      this.#deps.onError(error);
    } finally {
      this.#sending = undefined;
    }
  }

  /** If the credit does not cover all notifications, they are charged one by one. */
  async #sendPaid(batch: readonly Notification[]): Promise<void> {
    const wanted = batch.filter(({ to }) => to.isOpen);
    if (wanted.length === 0) return;
    const payment = await this.#deps.payer.reserve(costOf(wanted));
    if ("error" in payment) {
      if (wanted.length > 1) for (const one of wanted) await this.#sendPaid([one]);
      else for (const { to } of wanted) to.refuse(payment);
      return;
    }
    // Notifications of subscriptions that have ended in the meantime are not charged.
    const left = this.#isClosed ? [] : wanted.filter(({ to }) => to.isOpen);
    if (left.length === 0) return payment.release();
    const isPaid = await payment.settle(linesOf(left));
    for (const { to, result, onSent } of left) {
      if (this.#isClosed || !to.isOpen) continue;
      if (isPaid) {
        this.#deps.send(notificationOf(to, `"result":${result}`));
        onSent?.();
      } else to.refuse(unavailable);
    }
  }
}

/** `member`: `"result":…` or `"error":…`. The members have the order of Substrate nodes. */
export function notificationOf(
  { id, method }: Pick<NotifiedSubscription, "id" | "method">,
  member: string,
): string {
  return `{"jsonrpc":"2.0","method":"${method.notification}","params":{"subscription":"${id}",${member}}}`;
}

function costOf(batch: readonly Notification[]): number {
  return batch.reduce((sum, { to }) => sum + to.method.notificationMilliCu, 0);
}

function linesOf(batch: readonly Notification[]): Parameters<Payment["settle"]>[0] {
  const costs = new Map<string, number>();
  for (const { to } of batch) {
    const { name, notificationMilliCu } = to.method;
    if (notificationMilliCu > 0) costs.set(name, (costs.get(name) ?? 0) + notificationMilliCu);
  }
  return Array.from(costs, ([method, costMilliCu]) => ({ method, costMilliCu }));
}

let lastText = "";
let lastBytes = 0;

/** Remembers the bytes of the last text, because a notification is given to all its clients one after the other. */
function bytesOf(text: string): number {
  if (text !== lastText) {
    lastText = text;
    lastBytes = Buffer.byteLength(text);
  }
  return lastBytes;
}
