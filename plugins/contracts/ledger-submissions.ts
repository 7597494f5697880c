/** Extrinsics that clients submit through the service `ledger`. An extrinsic is never sent to a second node. */
import type { OpenedOwnSubscription, SubscriptionMethod } from "./ledger-subscriptions.ts";

/** `openMilliCu` is the price of the submission, which continues until it is ended. */
export interface SubmissionMethod extends SubscriptionMethod {
  /**
   * `legacy`: `author_submitAndWatchExtrinsic`. `watch`: `transactionWatch_v1_submitAndWatch`. `broadcast`:
   * `transaction_v1_broadcast`, which has no notifications.
   */
  readonly kind: "legacy" | "watch" | "broadcast";
  readonly endMethod: string;
}

export interface LedgerSubmissions {
  readonly methods: ReadonlyMap<string, SubmissionMethod>;
  /** The same methods, by the name of the method that ends the submission. */
  readonly ending: ReadonlyMap<string, SubmissionMethod>;
  /**
   * Submits an extrinsic to one node, once. `extrinsic`: hexadecimal with 0x. Never rejects. If the node of an open
   * submission is lost, the fate of the extrinsic is unknown.
   */
  submit(method: SubmissionMethod, extrinsic: string): Promise<OpenedOwnSubscription>;
}
