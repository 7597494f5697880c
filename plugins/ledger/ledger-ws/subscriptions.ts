/** The subscriptions of one connection that have the names of the older JSON-RPC interface. */
import { createHash } from "node:crypto";
import type {
  ClientSubscription,
  LedgerSubscriptions,
  SubscriptionMethod,
  SubscriptionOpener,
} from "sluice-gateway/services";
import { tooManySubscriptions, unavailable, type RpcCall } from "./call-replies.ts";
import type { Quota } from "./key-limit.ts";
import { OpenSubscriptions, type SubscriptionDeps } from "./open-subscriptions.ts";

/** decisions.md section 14. */
const maxSubscriptions = 64;

export interface SubscriptionsDeps extends SubscriptionDeps {
  readonly feed: LedgerSubscriptions;
  readonly opener: SubscriptionOpener;
  /** Returns the key's limit for one subscription at the node. `name`: equal for equal subscriptions. */
  readonly quotaOf: (name: string) => Quota;
}

export class Subscriptions extends OpenSubscriptions<SubscriptionMethod, ClientSubscription> {
  readonly #deps: SubscriptionsDeps;

  constructor(deps: SubscriptionsDeps) {
    super(deps, {
      max: maxSubscriptions,
      // A call whose parameters are not valid is refused when it is opened.
      quotaOf: ({ params }, method) =>
        deps.quotaOf(digestOf(deps.feed.nameOf(method, params) ?? method.name)),
      isAlwaysCharged: false,
      refuseFull: (call, { name }, full) =>
        deps.replies.refuse(call, tooManySubscriptions(full), name),
      lastMember: (_, refusal = unavailable) => `"error":${refusal.error}`,
    });
    this.#deps = deps;
  }

  handles(method: string): boolean {
    const { subscribing, unsubscribing } = this.#deps.feed;
    return subscribing.has(method) || unsubscribing.has(method);
  }

  async answer(call: RpcCall): Promise<void> {
    const { feed, replies } = this.#deps;
    const method = feed.subscribing.get(call.method);
    if (method !== undefined) {
      return this.open(call, method, () => feed.open(method, call.params, this.#deps.opener));
    }
    const id = /^\s*\[\s*"([\w-]+)"\s*\]\s*$/.exec(call.params)?.[1] ?? "";
    replies.answer(call, String(this.remove(id)));
  }
}

/** Returns a short text that is equal for equal names. A name may be as long as a message. */
function digestOf(name: string): string {
  return name.length <= 64 ? name : createHash("sha256").update(name).digest("base64");
}
