/** The subscriptions of one connection that follow the same rules. There is one subclass per kind of subscription. */
import { randomBytes } from "node:crypto";
import type {
  ClientSubscription,
  SubscriptionEndReason,
  SubscriptionMethod,
} from "sluice-gateway/services";
import { guarded } from "sluice-gateway/internal/toolkit";
import {
  endErrors,
  internalError,
  unavailable,
  upstreamErrorCodes,
  type CallReplies,
  type FullQuota,
  type Refusal,
  type RpcCall,
} from "./call-replies.ts";
import type { Payer } from "./caller.ts";
import type { Quota } from "./key-limit.ts";
import {
  notificationOf,
  type NotifiedSubscription,
  type PaidNotifications,
} from "./paid-notifications.ts";

export interface SubscriptionDeps {
  readonly payer: Payer;
  readonly notifications: PaidNotifications;
  readonly replies: CallReplies;
  /** Called with an exception. It ends the connection. */
  readonly onError: (error: unknown) => void;
}

export interface SubscriptionRules<Method, Upstream> {
  readonly max: number;
  quotaOf(call: RpcCall, method: Method): Quota;
  /** True if opening is charged even if the node refuses it or the client has disconnected. */
  readonly isAlwaysCharged: boolean;
  refuseFull(call: RpcCall, method: Method, full: FullQuota): void;
  /**
   * Returns the last notification of a subscription that the gateway ends, as a member of `params`. Undefined if such
   * a subscription stays open until the client ends it. `refusal`: undefined if the gateway is stopping.
   */
  lastMember(method: Method, refusal: Refusal | undefined): string | undefined;
  /** Called after each notification but the last one. */
  onNotified?(upstream: Upstream): void;
}

/** `full`: too many subscriptions are open at the nodes. */
type Opened<Upstream> =
  | { readonly kind: "open"; readonly subscription: Upstream }
  | { readonly kind: "error"; readonly error: string }
  | { readonly kind: "full" | "failed" };

export interface OpenSubscription<Method, Upstream> extends NotifiedSubscription {
  readonly method: Method & SubscriptionMethod;
  readonly upstream: Upstream;
  readonly quota: Quota;
}

interface WantedSubscription<Method> {
  readonly method: Method;
  readonly quota: Quota;
  readonly openMilliCu: number;
}

export class OpenSubscriptions<
  Method extends SubscriptionMethod,
  Upstream extends ClientSubscription,
> {
  readonly #deps: SubscriptionDeps;
  readonly #rules: SubscriptionRules<Method, Upstream>;
  readonly #open = new Map<string, OpenSubscription<Method, Upstream>>();
  #opening = 0;
  #isClosed = false;

  constructor(deps: SubscriptionDeps, rules: SubscriptionRules<Method, Upstream>) {
    this.#deps = deps;
    this.#rules = rules;
  }

  get(id: string): OpenSubscription<Method, Upstream> | undefined {
    return this.#open.get(id);
  }

  values(): Iterable<OpenSubscription<Method, Upstream>> {
    return this.#open.values();
  }

  async open(
    call: RpcCall,
    method: Method,
    openUpstream: () => Promise<Opened<Upstream>>,
    openMilliCu = method.openMilliCu,
  ): Promise<void> {
    const { max } = this.#rules;
    const quota = this.#rules.quotaOf(call, method);
    if (this.#open.size + this.#opening >= max) {
      return this.#rules.refuseFull(call, method, "connection");
    }
    if (quota.take() === 0) return this.#rules.refuseFull(call, method, "key");
    this.#opening++;
    let isOpen = false;
    try {
      isOpen = await this.#openPaid(call, { method, quota, openMilliCu }, openUpstream);
    } finally {
      this.#opening--;
      if (!isOpen) quota.release();
    }
  }

  /** Sends no notification. Returns false if the subscription is not open. */
  remove(id: string): boolean {
    const open = this.#open.get(id);
    if (open === undefined) return false;
    this.#open.delete(id);
    open.quota.release();
    open.upstream.close();
    return true;
  }

  /** Ends a subscription with its last notification, which is free. */
  end(open: OpenSubscription<Method, Upstream>, refusal?: Refusal): void {
    const { replies } = this.#deps;
    const last = this.#rules.lastMember(open.method, refusal);
    if (last === undefined || !this.remove(open.id)) return;
    replies.report(open.method.name, refusal?.code);
    replies.send(notificationOf(open, last));
  }

  /** Ends all subscriptions with their last notification, because the gateway is stopping. */
  drain(): void {
    for (const open of this.#open.values()) this.end(open);
  }

  close(): void {
    this.#isClosed = true;
    for (const id of this.#open.keys()) this.remove(id);
  }

  /** Returns true if the subscription is open. */
  async #openPaid(
    call: RpcCall,
    wanted: WantedSubscription<Method>,
    openUpstream: () => Promise<Opened<Upstream>>,
  ): Promise<boolean> {
    const { payer, replies } = this.#deps;
    const { method, openMilliCu } = wanted;
    const { name } = method;
    const refuse = (refusal: Refusal): false => {
      replies.refuse(call, refusal, name);
      return false;
    };
    const payment = await payer.reserve(openMilliCu);
    if ("error" in payment) return refuse(payment);
    let opened: Opened<Upstream>;
    try {
      opened = await openUpstream();
    } catch (error) {
      payment.release();
      throw error;
    }
    let isPaid = false;
    if (this.#isCharged(opened))
      isPaid = await payment.settle([{ method: name, costMilliCu: openMilliCu }]);
    else payment.release();
    switch (opened.kind) {
      case "open":
        if (isPaid && !this.#isClosed) return this.#begin(call, wanted, opened.subscription);
        opened.subscription.close();
        return refuse(unavailable);
      case "full":
        this.#rules.refuseFull(call, method, "nodes");
        return false;
      case "error":
        if (this.#rules.isAlwaysCharged && !isPaid) return refuse(unavailable);
        return refuse({ code: upstreamErrorCodes.error, error: opened.error });
      case "failed":
      default:
        return refuse({ code: upstreamErrorCodes.failed, error: internalError });
    }
  }

  #isCharged({ kind }: Opened<Upstream>): boolean {
    const { isAlwaysCharged } = this.#rules;
    if (kind === "open") return isAlwaysCharged || !this.#isClosed;
    return kind === "error" && isAlwaysCharged;
  }

  #begin(call: RpcCall, { method, quota }: WantedSubscription<Method>, upstream: Upstream): true {
    const { notifications, replies, onError } = this.#deps;
    const all = this.#open;
    const open: OpenSubscription<Method, Upstream> = {
      id: randomBytes(12).toString("base64url"),
      method,
      upstream,
      quota,
      get isOpen() {
        return all.get(this.id) === this;
      },
      refuse: (refusal) => this.end(open, refusal),
    };
    all.set(open.id, open);
    replies.answer(call, `"${open.id}"`, method.name);
    upstream.start({
      onNotification: guarded((result: string, isLast: boolean) => {
        notifications.add(open, result, isLast ? () => void this.remove(open.id) : undefined);
        if (!isLast) this.#rules.onNotified?.(upstream);
      }, onError),
      onEnd: guarded((reason?: SubscriptionEndReason) => {
        const lost = { code: upstreamErrorCodes.failed, error: internalError };
        this.end(open, reason === undefined ? lost : endErrors[reason]);
      }, onError),
    });
    return true;
  }
}
