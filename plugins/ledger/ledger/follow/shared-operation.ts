import type { ClientOperation, OperationEnd, OperationListener } from "sluice-gateway/services";
import type { Block } from "./block-tree.ts";

/** Results above this number of characters are passed on, but not kept for clients that join later or for the cache. */
const maxKept = 4 * 1_048_576;

export interface OperationOwner {
  onResume(operation: SharedOperation): void;
  onAbandoned(operation: SharedOperation): void;
}

export interface OperationRequest {
  /** Equal for operations with the same results. */
  readonly key: string;
  readonly method: string;
  /** The parameters after the subscription, as JSON text without brackets. */
  readonly params: string;
  /** Name of the member that has the results in the node's events. */
  readonly member: string;
}

export class SharedOperation {
  readonly request: OperationRequest;
  /** The block stays pinned at the node until the node has started. */
  readonly block: Block;
  /** The node's id. Undefined before the node has started. */
  id: string | undefined;
  isSent = false;
  /** True while the node waits for `chainHead_v1_continue`. */
  isWaiting = false;
  /** Undefined if the results are too large to keep. */
  kept: string[] | undefined = [];
  timeout: Disposable | undefined;
  #end: OperationEnd | undefined;
  #keptChars = 0;
  /** Number of clients, including those that have not got the results so far. */
  #clients = 0;
  readonly #owner: OperationOwner;
  readonly #listeners = new Set<OperationListener>();

  constructor(request: OperationRequest, block: Block, owner: OperationOwner) {
    this.request = request;
    this.block = block;
    this.#owner = owner;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  get isBehind(): boolean {
    for (const listener of this.#listeners) if (!listener.isBehind) return false;
    return this.#listeners.size > 0;
  }

  /** The client first gets the results so far. Must be called only while `kept` is defined. */
  join(listener: OperationListener): ClientOperation {
    let isStopped = false;
    this.#clients++;
    if (this.#clients === 1) this.#listeners.add(listener);
    else {
      queueMicrotask(() => {
        if (!isStopped) this.#catchUp(listener);
      });
    }
    return {
      resume: () => {
        if (this.isWaiting) this.#owner.onResume(this);
      },
      stop: () => {
        if (isStopped) return this.isSent;
        isStopped = true;
        this.#listeners.delete(listener);
        this.#clients--;
        if (this.#clients === 0 && !this.hasEnded) this.#owner.onAbandoned(this);
        return this.isSent;
      },
    };
  }

  result(value: string): void {
    this.#keptChars += value.length;
    if (this.#keptChars > maxKept) this.kept = undefined;
    this.kept?.push(value);
    for (const listener of this.#listeners) listener.onResult(value);
  }

  end(end: OperationEnd): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.timeout?.[Symbol.dispose]();
    const listeners = [...this.#listeners];
    this.#listeners.clear();
    for (const listener of listeners) listener.onEnd(end);
  }

  #catchUp(listener: OperationListener): void {
    if (this.kept === undefined) return listener.onEnd({ kind: "inaccessible" });
    for (const value of this.kept) listener.onResult(value);
    if (this.#end === undefined) this.#listeners.add(listener);
    else listener.onEnd(this.#end);
  }
}
