/**
 * `archive_v1` of the service `ledger`, from the JSON-RPC interface specification of the ecosystem. Its subscriptions
 * read the storage at a block, and end when everything has been read.
 */
import type {
  ClientSubscription,
  OpenedOwnSubscription,
  SubscriptionMethod,
} from "./ledger-subscriptions.ts";

export interface ArchiveMethod extends SubscriptionMethod {
  /** True if `openMilliCu` is the price of one item of the request. */
  readonly isPerItem: boolean;
  /** The event that reports a failure. Nothing follows it. */
  readonly errorEvent: string;
}

export interface ArchiveRequest {
  /** The block, in lower case with 0x. */
  readonly hash: string;
  readonly items: number;
  /** All parameters as JSON text of an array. */
  readonly params: string;
}

/** A read is paused until `start` is called. */
export interface ClientArchiveRead extends ClientSubscription {
  /** Makes the node wait, because the client does not read. A few notifications may still follow. */
  pause(): void;
  resume(): void;
}

export type OpenedArchiveRead = OpenedOwnSubscription<ClientArchiveRead>;

export interface LedgerArchive {
  readonly methods: ReadonlyMap<string, ArchiveMethod>;
  /** The same methods, by each name of the method that stops the read. */
  readonly stopping: ReadonlyMap<string, ArchiveMethod>;
  /**
   * Starts a read at a node that has the block. Never rejects. `signal`: aborted when the client disconnects; no more
   * nodes are asked after that, and the result is `failed`.
   */
  open(
    method: ArchiveMethod,
    request: ArchiveRequest,
    signal?: AbortSignal,
  ): Promise<OpenedArchiveRead>;
}
