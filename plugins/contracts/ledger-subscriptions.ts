/** Subscriptions of the service `ledger`. Clients share one subscription at the node per method, except for storage. */

export interface SubscriptionMethod {
  /** Name of the method in charges. Its aliases have the same one. */
  readonly name: string;
  /** The `method` member of its notifications (`chain_newHead`). */
  readonly notification: string;
  /** Price of a subscription, and of each of its notifications. */
  readonly openMilliCu: number;
  readonly notificationMilliCu: number;
}

/**
 * The reason why a subscription has ended although its node was not lost. `tooLarge`: a notification does not fit into
 * a message. `clientTooSlow`: the client has not read for too long.
 */
export type SubscriptionEndReason = "tooLarge" | "clientTooSlow";

/** The methods must not throw. */
export interface NotificationListener {
  /** `result`: JSON text, exactly as the node sent it. `isLast`: true if no method is called after this. */
  onNotification(result: string, isLast: boolean): void;
  /**
   * Called at most once, and last. `reason`: undefined if the node is lost and no other node can continue the
   * subscription.
   */
  onEnd(reason?: SubscriptionEndReason): void;
}

export interface ClientSubscription {
  /** The first notification is the one that a node sends to a new subscriber. Call it at most once. */
  start(listener: NotificationListener): void;
  /** The listener is not called after this. */
  close(): void;
}

export type OpenedSubscription =
  | { readonly kind: "open"; readonly subscription: ClientSubscription }
  /** The parameters are not valid, or the node has refused. `error`: the JSON-RPC error as JSON text. */
  | { readonly kind: "error"; readonly error: string }
  /** No node answered. */
  | { readonly kind: "failed" };

/** A subscription that clients do not share. Each takes a place at a node. */
export type OpenedOwnSubscription<S extends ClientSubscription = ClientSubscription> =
  | { readonly kind: "open"; readonly subscription: S }
  /** The node, or the last node that was asked, has refused. `error`: the JSON-RPC error as JSON text. */
  | { readonly kind: "error"; readonly error: string }
  /** Nothing was opened, because too many subscriptions of this kind are open at the nodes. */
  | { readonly kind: "full" }
  /** No node answered. An extrinsic may have been submitted. */
  | { readonly kind: "failed" };

export interface SubscriptionOpener {
  readonly key: string;
  readonly workspace: string;
}

export interface LedgerSubscriptions {
  /** Methods by every name that nodes accept. */
  readonly subscribing: ReadonlyMap<string, SubscriptionMethod>;
  readonly unsubscribing: ReadonlyMap<string, SubscriptionMethod>;
  /**
   * Returns a name that is the same for equal subscriptions. It may be as long as `params`.
   * Undefined if the parameters are not valid. `params`: JSON text, or empty if there are none.
   */
  nameOf(method: SubscriptionMethod, params: string): string | undefined;
  /** `params`: as for `nameOf`. `opener`: the client for which a new subscription at the node counts. Never rejects. */
  open(
    method: SubscriptionMethod,
    params: string,
    opener?: SubscriptionOpener,
  ): Promise<OpenedSubscription>;
}
