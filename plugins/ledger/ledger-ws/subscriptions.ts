/** The subscriptions of one connection that have the names of the older JSON-RPC interface. */
import { randomBytes } from "node:crypto";
import type { CallReporter } from "sluice-gateway/plugin";
import type {
  ClientSubscription,
  LedgerSubscriptions,
  SubscriptionMethod,
} from "sluice-gateway/services";
import { guarded } from "sluice-gateway/toolkit";
import {
  notificationOf,
  type NotifiedSubscription,
  type PaidNotifications,
  type Refusal,
} from "./paid-notifications.ts";
import type { Payer } from "./payer.ts";
import {
  internalError,
  tooManySubscriptions,
  unavailable,
  upstreamErrorCodes,
} from "./rpc-error.ts";

/** decisions.md section 14. */
const maxSubscriptions = 64;

/** A JSON-RPC call. `id` and `params` are JSON text; `params` is empty if there are none. */
export interface RpcCall {
  readonly id: string;
  readonly method: string;
  readonly params: string;
}

export interface SubscriptionsDeps {
  readonly feed: LedgerSubscriptions;
  readonly payer: Payer;
  readonly notifications: PaidNotifications;
  readonly calls: CallReporter;
  /** Sends a text message. */
  readonly send: (message: string) => void;
  /** Called for an exception, which ends the connection. */
  readonly onError: (error: unknown) => void;
}

interface Open extends NotifiedSubscription {
  readonly upstream: ClientSubscription;
}

export class Subscriptions {
  readonly #deps: SubscriptionsDeps;
  readonly #open = new Map<string, Open>();
  /** Number of subscriptions that are being opened. */
  #opening = 0;
  #isClosed = false;

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

  /** Ends all subscriptions. */
  close(): void {
    this.#isClosed = true;
    for (const { upstream } of this.#open.values()) upstream.close();
    this.#open.clear();
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
      return this.#refuse(call, method, { code: upstreamErrorCodes[opened.kind], error });
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
    const { onError, notifications } = this.#deps;
    const all = this.#open;
    const open: Open = {
      id: randomBytes(12).toString("base64url"),
      method,
      upstream: opened.subscription,
      get isOpen() {
        return all.get(this.id) === this;
      },
      refuse: (refusal) => this.#end(open, refusal),
    };
    all.set(open.id, open);
    this.#report(method.name);
    send(`{"jsonrpc":"2.0","id":${call.id},"result":"${open.id}"}`);
    const ended = { code: "UPSTREAM_ERROR", error: internalError };
    open.upstream.start({
      onNotification: guarded((result: string) => notifications.add(open, result), onError),
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
