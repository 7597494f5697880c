/** The service `host.ledger`, a pool of Substrate nodes: implemented in src/ledger. */
import type { CallReporter } from "../called.ts";
import type { ChargeLine } from "./meter.ts";

/** One whitelisted node method. */
export interface LedgerMethod {
  readonly name: string;
  /** As in the specification: `["storageKey", "blockHash?"]`. */
  readonly params: readonly string[];
  readonly cuMilli: number;
}

/** What a node said. Bytes are the node's own, borrowed. `failed`: no answer of any node; nothing is owed. */
export type LedgerAnswer =
  | { readonly kind: "result"; readonly bytes: Buffer }
  | { readonly kind: "error"; readonly bytes: Buffer }
  | { readonly kind: "failed"; readonly reason: "unreachable" | "timeout" | "garbage" | "aborted" };

export interface Ledger {
  /** The whitelist, by the name that clients use. */
  readonly methods: ReadonlyMap<string, LedgerMethod>;
  /**
   * A method for the gateway's own needs, whitelisted or not, for `call`: every known read, and
   * `author_submitExtrinsic`. `name` MUST NOT come from a client. Throws (a bug) for a name that is neither.
   */
  internal(name: string): LedgerMethod;
  /**
   * Calls a method of `methods` or `internal` with raw JSON `params` bytes (empty: none). Cached, shared with identical
   * reads in flight, retried on another node where safe. Synchronous when the answer is at hand. Never rejects.
   * `signal`: the caller has left; a shared call goes on for the others.
   */
  call(
    method: LedgerMethod,
    params: Buffer,
    options?: { readonly signal?: AbortSignal },
  ): LedgerAnswer | Promise<LedgerAnswer>;
  /** Reads and prices a JSON-RPC body (a call or a batch), by decisions.md section 5. Nothing is sent yet. */
  rpc(body: Buffer): LedgerRpc;
}

/** A JSON-RPC body on its way: reserve its cost, `run` it once, then settle its `lines`. */
export interface LedgerRpc {
  /** The sum over the calls that it holds; 0 when there is nothing to reserve. */
  readonly costMilli: number;
  /**
   * Makes the calls. The JSON-RPC answer in UTF-8, which is not to be written to; undefined when the body held only
   * notifications. Synchronous when everything is at hand. Never rejects. What a batch has not begun is left out once
   * the caller has left.
   */
  run(caller?: {
    readonly clientLeft: boolean;
  }): string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>;
  /** After `run`: what is owed, a line for each call that a node has answered. */
  readonly lines: readonly Pick<ChargeLine, "method" | "costMilli">[];
  /** After `run`: why no node answered, when that befell every call of the body. */
  readonly failure: "unreachable" | "timeout" | "garbage" | "aborted" | undefined;
  /**
   * Reports each call that the body holds. After `run`, or instead of it with `refusedWith`: the code of the refusal that
   * all of them share. Notifications are not calls.
   */
  report(to: CallReporter, refusedWith?: string): void;
}
