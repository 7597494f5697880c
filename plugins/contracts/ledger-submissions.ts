/**
 * Submitting extrinsics through the service `ledger`, for clients that stay connected. An extrinsic is never sent
 * to a second node.
 */
import type { ClientSubscription, SubscriptionMethod } from "./ledger-subscriptions.ts";

/** A method that submits an extrinsic and continues until it is ended. `openMilliCu` is the price of the submission. */
export interface SubmissionMethod extends SubscriptionMethod {
  /**
   * `legacy`: `author_submitAndWatchExtrinsic`. `watch`: `transactionWatch_v1_submitAndWatch`. `broadcast`:
   * `transaction_v1_broadcast`, which has no notifications.
   */
  readonly kind: "legacy" | "watch" | "broadcast";
  /** The method that ends it. */
  readonly endMethod: string;
}

export type SubmissionAnswer =
  /** If the node is lost, nobody knows what became of the extrinsic. */
  | { readonly kind: "open"; readonly subscription: ClientSubscription }
  /** The node has refused. `error`: the JSON-RPC error as JSON text. */
  | { readonly kind: "error"; readonly error: string }
  /** Nothing was sent or broadcast, because too many submissions are open. */
  | { readonly kind: "full" }
  /** No node answered. The extrinsic may have been submitted. */
  | { readonly kind: "failed" };

export interface LedgerSubmissions {
  /** The methods that submit, by name. */
  readonly methods: ReadonlyMap<string, SubmissionMethod>;
  /** The methods that began a submission, by the name of the method that ends it. */
  readonly ending: ReadonlyMap<string, SubmissionMethod>;
  /** Submits an extrinsic to one node, once. `extrinsic`: hexadecimal with 0x. Never rejects. */
  submit(method: SubmissionMethod, extrinsic: string): Promise<SubmissionAnswer>;
}
