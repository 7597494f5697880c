/**
 * The subscriptions of one connection. A notification is sent after its charge is on disk. Notifications that arrive while
 * a charge is being written are charged together.
 */
import { randomBytes } from "node:crypto";
import type { CallReporter } from "sluice-gateway/plugin";
import type {
  ClientSubscription,
  LedgerSubscriptions,
  SubscriptionMethod,
} from "sluice-gateway/services";
import { guarded } from "sluice-gateway/toolkit";
import type { Payer } from "./payer.ts";
import { tooManySubscriptions, unavailable, type CallRefusal } from "./rpc-error.ts";

/** decisions.md section 14. */
const maxSubscriptions = 64;

/** A JSON-RPC call. `id` and `params` are JSON text; `params` is empty if there are none. */
interface RpcCall {
  readonly id: string;
  readonly method: string;
  readonly params: string;
}

export interface SubscriptionsDeps {
  readonly feed: LedgerSubscriptions;
  readonly payer: Payer;
  readonly calls: CallReporter;
  /** Sends a text message. */
  readonly send: (message: string) => void;
  /** Called when the number of bytes that wait to be charged has changed. */
  readonly onWaiting: (bytes: number) => void;
  /** Called for an exception, which ends the connection. */
  readonly onError: (error: unknown) => void;
}

interface Open {
  readonly id: string;
  readonly method: SubscriptionMethod;
  readonly upstream: ClientSubscription;
}

interface Notification {
  readonly to: Open;
  readonly result: string;
}

export class Subscriptions {
  readonly #deps: SubscriptionsDeps;
  readonly #open = new Map<string, Open>();
  /** Number of subscriptions that are being opened. */
  #opening = 0;
  #waiting: Notification[] = [];
  #waitingBytes = 0;
  #isClosed = false;
  #sending: Promise<void> | undefined;

  constructor(deps: SubscriptionsDeps) {
    this.#deps = deps;
  }

  /** Returns true if this call opens or ends a subscription. */
  handles(method: string): boolean {
    const { subscribing, unsubscribing } = this.#deps.feed;
    return subscribing.has(method) || unsubscribing.has(method);
  }

  /** Answers a call for which `handles` returns true. Sends the answer, unless it rejects. */
  async answer(call: RpcCall): Promise<void> {
    const method = this.#deps.feed.subscribing.get(call.method);
    if (method !== undefined) return this.#subscribe(call, method);
    this.#report(call.method);
    const id = /^\s*\[\s*"([\w-]+)"\s*\]\s*$/.exec(call.params)?.[1] ?? "";
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"result":${this.#unsubscribe(id)}}`);
  }

  /** Ends all subscriptions. Resolves when all charges have been written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { upstream } of this.#open.values()) upstream.close();
    this.#open.clear();
    this.#waiting = [];
    await this.#sending;
  }

  async #subscribe(call: RpcCall, method: SubscriptionMethod): Promise<void> {
    if (this.#open.size + this.#opening >= maxSubscriptions) {
      return this.#refuse(call, method, tooManySubscriptions);
    }
    this.#opening++;
    try {
      await this.#openPaid(call, method);
    } finally {
      this.#opening--;
    }
  }

  async #openPaid(call: RpcCall, method: SubscriptionMethod): Promise<void> {
    const { feed, payer, send } = this.#deps;
    const payment = await payer.reserve(method.openMilliCu);
    if ("error" in payment) return this.#refuse(call, method, payment);
    const opened = await feed.open(method, call.params);
    if (opened.kind !== "open") {
      payment.release();
      const error = opened.kind === "error" ? opened.error : internalError;
      return this.#refuse(call, method, { code: errorCodes[opened.kind], error });
    }
    if (this.#isClosed) {
      opened.subscription.close();
      return payment.release();
    }
    const lines = [{ method: method.name, costMilliCu: method.openMilliCu }];
    const isPaid = await payment.settle(lines);
    if (!isPaid || this.#isClosed) {
      opened.subscription.close();
      return this.#refuse(call, method, unavailable);
    }
    const open = {
      id: randomBytes(12).toString("base64url"),
      method,
      upstream: opened.subscription,
    };
    this.#open.set(open.id, open);
    this.#report(method.name);
    send(`{"jsonrpc":"2.0","id":${call.id},"result":"${open.id}"}`);
    const { onError } = this.#deps;
    const ended = { code: "UPSTREAM_ERROR", error: internalError };
    open.upstream.start({
      onNotification: guarded((result: string) => this.#add({ to: open, result }), onError),
      onEnd: guarded(() => this.#end(open, ended), onError),
    });
  }

  #unsubscribe(id: string): boolean {
    const open = this.#open.get(id);
    if (open === undefined) return false;
    this.#open.delete(id);
    open.upstream.close();
    return true;
  }

  #add(notification: Notification): void {
    if (this.#isClosed) return;
    this.#waiting.push(notification);
    this.#waitingBytes += notification.result.length;
    this.#deps.onWaiting(this.#waitingBytes);
    this.#sending ??= this.#sendAll()
      .catch(this.#deps.onError)
      .finally(() => (this.#sending = undefined));
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#isClosed) {
      const batch = this.#waiting;
      this.#waiting = [];
      await this.#sendPaid(batch);
      for (const { result } of batch) this.#waitingBytes -= result.length;
    }
  }

  /** Sends the notifications after their charge is written. If the credit does not cover all, charges them one by one. */
  async #sendPaid(batch: readonly Notification[]): Promise<void> {
    const wanted = batch.filter(({ to }) => this.#open.get(to.id) === to);
    if (wanted.length === 0) return;
    const lines = linesOf(wanted);
    const payment = await this.#deps.payer.reserve(sumOf(lines));
    if ("error" in payment) {
      if (wanted.length > 1) for (const one of wanted) await this.#sendPaid([one]);
      else for (const { to } of wanted) this.#end(to, payment);
      return;
    }
    // Notifications of subscriptions that have ended meanwhile are not charged.
    if (this.#isClosed || wanted.every(({ to }) => this.#open.get(to.id) !== to)) {
      return payment.release();
    }
    const isPaid = await payment.settle(lines);
    for (const { to, result } of wanted) {
      if (this.#isClosed || this.#open.get(to.id) !== to) continue;
      if (isPaid) this.#deps.send(notificationOf(to, `"result":${result}`));
      else this.#end(to, unavailable);
    }
  }

  /** Ends a subscription with an error as its last notification, which is free. */
  #end(open: Open, { code, error }: Refusal): void {
    if (!this.#unsubscribe(open.id)) return;
    this.#report(open.method.name, code);
    this.#deps.send(notificationOf(open, `"error":${error}`));
  }

  #refuse(call: RpcCall, method: SubscriptionMethod, { code, error }: Refusal): void {
    this.#report(method.name, code);
    this.#deps.send(`{"jsonrpc":"2.0","id":${call.id},"error":${error}}`);
  }

  #report(name: string, code?: string): void {
    this.#deps.calls.called({ kind: "node", name, isListed: true, code });
  }
}

type Refusal = Pick<CallRefusal, "error"> & { readonly code: string };

const internalError = '{"code":-32603,"message":"Internal Error"}';
const errorCodes = { error: "NODE_ERROR", failed: "UPSTREAM_ERROR" } as const;

/** `member`: `"result":…` or `"error":…`. The members have the order of Substrate nodes. */
function notificationOf({ id, method }: Open, member: string): string {
  return `{"jsonrpc":"2.0","method":"${method.notification}","params":{"subscription":"${id}",${member}}}`;
}

interface Line {
  readonly method: string;
  readonly costMilliCu: number;
}

/** Returns one line per method, for all its notifications. */
function linesOf(batch: readonly Notification[]): readonly Line[] {
  const costs = new Map<string, number>();
  for (const { to } of batch) {
    const { name, notificationMilliCu } = to.method;
    costs.set(name, (costs.get(name) ?? 0) + notificationMilliCu);
  }
  return Array.from(costs, ([method, costMilliCu]) => ({ method, costMilliCu }));
}

function sumOf(lines: readonly Line[]): number {
  return lines.reduce((sum, { costMilliCu }) => sum + costMilliCu, 0);
}
