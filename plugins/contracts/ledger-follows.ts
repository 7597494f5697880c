/**
 * `chainHead_v1_*` of the service `ledger`, from the JSON-RPC interface specification of the ecosystem. Clients share
 * one `chainHead_v1_follow` at the node per value of `withRuntime`.
 */
import type { ClientSubscription, SubscriptionMethod } from "./ledger-subscriptions.ts";

export interface FollowMethod {
  readonly name: string;
  readonly cuMilli: number;
}

/** The methods that are charged, `storage` per item. All other methods of the family are free. */
export interface FollowMethods {
  readonly follow: SubscriptionMethod;
  readonly header: FollowMethod;
  readonly body: FollowMethod;
  readonly storage: FollowMethod;
  readonly call: FollowMethod;
}

/** An operation at a pinned block. Hexadecimal strings have their prefix 0x. */
export type FollowOperation =
  | { readonly kind: "body"; readonly hash: string }
  | {
      readonly kind: "call";
      readonly hash: string;
      readonly function: string;
      readonly parameters: string;
    }
  | {
      readonly kind: "storage";
      readonly hash: string;
      readonly key: string;
      readonly type: string;
      readonly childTrie: string | null;
    };

/** `error`: the node's message as JSON text. `inaccessible`: repeating the operation may succeed. */
export type OperationEnd =
  | { readonly kind: "done" }
  | { readonly kind: "error"; readonly error: string }
  | { readonly kind: "inaccessible" };

/** The methods must not throw, and none is called before `operate` has returned. */
export interface OperationListener {
  /** `value`: JSON text of the member `value` (body), `output` (call) or `items` (storage; called any number of times). */
  onResult(value: string): void;
  /** True while the client has unread results. Meanwhile the node may have to wait for `resume`. */
  readonly isBehind: boolean;
  /** Called once, unless the operation is stopped. */
  onEnd(end: OperationEnd): void;
}

export interface ClientOperation {
  /** Call it after `isBehind` has become false. */
  resume(): void;
  /** The listener is not called after this. Returns true if the node has started the operation. */
  stop(): boolean;
}

/**
 * The follow of one client, with the blocks that this client has pinned. Hashes are in lower case. The first event is
 * `initialized`. When the follow has ended (`onEnd`), the client must start another one. `close` unpins what only this
 * client has pinned.
 */
export interface ClientFollow extends ClientSubscription {
  hasPinned(hash: string): boolean;
  /** Returns false, and unpins none, if one of the blocks is not pinned. */
  unpin(hashes: readonly string[]): boolean;
  /** Returns the node's answer as JSON text. Undefined if the node is lost. Never rejects. */
  header(
    hash: string,
  ): Promise<{ readonly kind: "result" | "error"; readonly text: string } | undefined>;
  /** Undefined if too many operations wait for the node. */
  operate(operation: FollowOperation, listener: OperationListener): ClientOperation | undefined;
}

export type OpenedFollow =
  | { readonly kind: "open"; readonly subscription: ClientFollow }
  /** The node has refused. `error`: the JSON-RPC error as JSON text. */
  | { readonly kind: "error"; readonly error: string }
  /** No node answered. */
  | { readonly kind: "failed" };

export interface LedgerFollows {
  /** Undefined if pipeline.yaml has removed `chainHead_v1_follow`. */
  readonly methods: FollowMethods | undefined;
  /** Never rejects. */
  open(withRuntime: boolean): Promise<OpenedFollow>;
}
