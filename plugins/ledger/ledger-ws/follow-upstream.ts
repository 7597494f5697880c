import { randomBytes } from "node:crypto";
import type {
  ClientFollow,
  ClientSubscription,
  FollowMethod,
  FollowOperation,
  NotificationListener,
} from "sluice-gateway/services";
import type { Refusal } from "./call-replies.ts";
import { Operation, type OperationOutput } from "./follow-operation.ts";
import type { Quota } from "./key-limit.ts";
import type { Payer } from "./payer.ts";

/** Maximum number of operations of a follow (decisions.md section 14). */
const maxOperations = 16;

export interface FollowUpstreamDeps extends OperationOutput {
  readonly payer: Payer;
  /** The key's limit on operations. Each item of a storage operation counts as one. */
  readonly quota: Quota;
}

/** `parts`: can be smaller than the requested number. */
interface Started {
  readonly id: string;
  readonly parts: number;
}

export class FollowUpstream implements ClientSubscription {
  readonly follow: ClientFollow;
  readonly withRuntime: boolean;
  readonly #deps: FollowUpstreamDeps;
  readonly #operations = new Map<string, Operation>();
  #running = 0;
  #isClosed = false;

  constructor(follow: ClientFollow, withRuntime: boolean, deps: FollowUpstreamDeps) {
    this.follow = follow;
    this.withRuntime = withRuntime;
    this.#deps = deps;
  }

  start(listener: NotificationListener): void {
    this.follow.start(listener);
  }

  close(): void {
    this.#isClosed = true;
    for (const operation of this.#operations.values()) operation.stop();
    this.follow.close();
  }

  operation(id: string): Operation | undefined {
    return this.#operations.get(id);
  }

  resume(): void {
    for (const operation of this.#operations.values()) operation.resume();
  }

  /** Starts an operation with as many of the parts as the limits allow. Undefined if they allow none. */
  async operate(
    method: FollowMethod,
    all: readonly FollowOperation[],
    send: (event: string) => void,
  ): Promise<Started | Refusal | undefined> {
    const { payer, quota } = this.#deps;
    const count = quota.take(Math.min(all.length, maxOperations - this.#running));
    if (count === 0) return undefined;
    this.#running += count;
    let hasStarted = false;
    const end = (): void => {
      this.#running -= count;
      quota.release(count);
    };
    try {
      const payment = await payer.reserve(method.cuMilli * count);
      if ("error" in payment) return payment;
      // The follow may have ended in the meantime.
      if (this.#isClosed) {
        payment.release();
        return undefined;
      }
      const id = randomBytes(12).toString("base64url");
      const operation = new Operation({
        ...this.#deps,
        id,
        follow: this.follow,
        method,
        parts: all.slice(0, count),
        payment,
        send: (event) => {
          if (!this.#isClosed) send(event);
        },
        onEnd: () => {
          this.#operations.delete(id);
          end();
        },
      });
      hasStarted = true;
      this.#operations.set(id, operation);
      return operation.start() ? { id, parts: count } : undefined;
    } finally {
      if (!hasStarted) end();
    }
  }
}
