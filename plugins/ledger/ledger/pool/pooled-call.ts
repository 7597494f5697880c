/** One call to the pool, which makes attempts at single nodes. The first acceptable answer of an attempt is final. */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { NodeRequest } from "../node-pool.ts";
import type { Failure } from "./node-call.ts";
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
