/** One call to the pool, and its attempts at single nodes. The first acceptable answer of an attempt is final. */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { NodeRequest } from "../node-pool.ts";
import { NodeCall } from "./node-call.ts";
import type { Failure } from "./failure.ts";
import type { PooledNode } from "./pooled-node.ts";

interface KeptAnswer {
  readonly kind: "result" | "error";
  readonly bytes: Buffer;
}

export class PooledCall {
  readonly request: NodeRequest;
  readonly startedAt: number;
  readonly tried: PooledNode[] = [];
  /** Number of attempts that have not ended. Two while the call is hedged. */
  attempts = 0;
  isHedged = false;
  isDone = false;
  #kept: KeptAnswer | undefined;

  constructor(request: NodeRequest, startedAt: number) {
    this.request = request;
    this.startedAt = startedAt;
  }

  keep(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.#kept ??= { kind, bytes: Buffer.from(bytes.subarray(start, end)) };
  }

  answer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.isDone = true;
    this.request.onAnswer(kind, bytes, start, end);
  }

  giveUp(failure: Failure | undefined, cause?: UpstreamFailure): void {
    this.isDone = true;
    const kept = this.#kept;
    if (kept !== undefined) this.request.onAnswer(kept.kind, kept.bytes, 0, kept.bytes.length);
    else this.request.onError(failure?.reason ?? "unreachable", cause);
  }
}

export interface AttemptListener {
  onAnswer(
    attempt: Attempt,
    kind: "result" | "error",
    bytes: Buffer,
    start: number,
    end: number,
  ): void;
  onError(attempt: Attempt, failure: Failure, cause?: UpstreamFailure): void;
}

export class Attempt extends NodeCall {
  readonly call: PooledCall;
  readonly node: PooledNode;
  /** Time of the monotonic clock in milliseconds. */
  readonly sentAt: number;
  readonly #listener: AttemptListener;

  constructor(call: PooledCall, node: PooledNode, sentAt: number, listener: AttemptListener) {
    super(call.request);
    this.call = call;
    this.node = node;
    this.sentAt = sentAt;
    this.#listener = listener;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.#listener.onAnswer(this, kind, bytes, start, end);
  }

  onError(failure: Failure, cause?: UpstreamFailure): void {
    this.#listener.onError(this, failure, cause);
  }
}
