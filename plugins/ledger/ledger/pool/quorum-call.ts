/**
 * A read that is answered only when two nodes give the same bytes. Both are asked at the same time. If they disagree or
 * one fails, further nodes decide. If no node is left, the first two are asked once more, because their heads may have
 * differed for a moment.
 */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { NodeFailure, NodeRequest } from "../node-pool.ts";
import type { PoolMetrics } from "./node-metrics.ts";
import type { PooledNode } from "./pooled-node.ts";

const needed = 2;
const maxRounds = 2;

interface Vote {
  readonly kind: "result" | "error";
  readonly bytes: Buffer;
}

/** Undefined if no node outside `except` is left. */
type AskNode = (request: NodeRequest, except: readonly PooledNode[]) => PooledNode | undefined;

export class QuorumCall {
  readonly #request: NodeRequest;
  readonly #metrics: PoolMetrics;
  readonly #ask: AskNode;
  #asked: PooledNode[] = [];
  #votes: Vote[] = [];
  #inFlight = 0;
  #round = 1;
  #isDone = false;
  #lastFailure: NodeFailure = "unreachable";
  #lastCause: UpstreamFailure | undefined;

  constructor(request: NodeRequest, metrics: PoolMetrics, ask: AskNode) {
    this.#request = request;
    this.#metrics = metrics;
    this.#ask = ask;
  }

  start(): void {
    while (this.#inFlight < needed && this.#askNext());
    if (this.#inFlight === 0) queueMicrotask(() => this.#giveUp());
  }

  #askNext(): boolean {
    const { method, params, cheap, block, caller } = this.#request;
    const vote: NodeRequest = {
      method,
      params,
      cheap,
      block,
      caller,
      // The quorum decides which node is asked next.
      retry: false,
      onAnswer: (kind, bytes, start, end) =>
        this.#onVote({ kind, bytes: Buffer.from(bytes.subarray(start, end)) }),
      onError: (reason, cause) => this.#onFailure(reason, cause),
    };
    const node = this.#ask(vote, this.#asked);
    if (node === undefined) return false;
    this.#asked.push(node);
    this.#inFlight++;
    return true;
  }

  #onVote(vote: Vote): void {
    this.#inFlight--;
    if (this.#isDone) return;
    if (this.#votes.some((other) => isSame(other, vote))) {
      this.#isDone = true;
      return this.#request.onAnswer(vote.kind, vote.bytes, 0, vote.bytes.length);
    }
    if (this.#votes.length > 0) this.#metrics.disagreed();
    this.#votes.push(vote);
    this.#continue();
  }

  #onFailure(reason: NodeFailure, cause: UpstreamFailure | undefined): void {
    this.#inFlight--;
    this.#lastFailure = reason;
    this.#lastCause = cause;
    if (!this.#isDone) this.#continue();
  }

  #continue(): void {
    if (this.#inFlight > 0) return;
    // The callers have left, and the params are not kept any more.
    if (!this.#request.retry) return this.#giveUp();
    if (this.#askNext()) return;
    if (this.#votes.length < needed || this.#round === maxRounds) return this.#giveUp();
    this.#round++;
    this.#asked = [];
    this.#votes = [];
    this.start();
  }

  #giveUp(): void {
    this.#isDone = true;
    if (this.#votes.length >= needed) this.#request.onError("disagreement");
    else this.#request.onError(this.#lastFailure, this.#lastCause);
  }
}

function isSame(a: Vote, b: Vote): boolean {
  return a.kind === b.kind && a.bytes.equals(b.bytes);
}
