/**
 * A read that is answered only when two nodes give the same bytes. Both are asked at the same time. If they disagree or
 * one fails, further nodes decide. If no node is left, the first two are asked once more, because their heads may have
 * differed for a moment.
 */
import type { UpstreamFailure } from "sluice-gateway/plugin";
import type { BlockOfCall, NodeFailure, NodeRequest } from "../node-pool.ts";
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
    const node = this.#ask(new VoteRequest(this.#request, this), this.#asked);
    if (node === undefined) return false;
    this.#asked.push(node);
    this.#inFlight++;
    return true;
  }

  onVote(kind: "result" | "error", bytes: Buffer): void {
    this.#inFlight--;
    if (this.#isDone) return;
    const vote = { kind, bytes };
    if (this.#votes.some((other) => isSame(other, vote))) {
      this.#isDone = true;
      return this.#request.onAnswer(kind, bytes, 0, bytes.length);
    }
    if (this.#votes.length > 0) this.#metrics.disagreed();
    this.#votes.push(vote);
    this.#continue();
  }

  onFailure(reason: NodeFailure, cause: UpstreamFailure | undefined): void {
    this.#inFlight--;
    this.#lastFailure = reason;
    this.#lastCause = cause;
    if (!this.#isDone) this.#continue();
  }

  #continue(): void {
    if (this.#inFlight > 0 || this.#askNext()) return;
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

/** Not retried, because the quorum decides which node is asked next. */
class VoteRequest implements NodeRequest {
  readonly method: string;
  readonly params: string;
  readonly retry = false;
  readonly cheap: boolean;
  readonly block: BlockOfCall | undefined;
  readonly caller: string | undefined;
  readonly #quorum: QuorumCall;

  constructor({ method, params, cheap, block, caller }: NodeRequest, quorum: QuorumCall) {
    this.method = method;
    this.params = params;
    this.cheap = cheap;
    this.block = block;
    this.caller = caller;
    this.#quorum = quorum;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.#quorum.onVote(kind, Buffer.from(bytes.subarray(start, end)));
  }

  onError(reason: NodeFailure, cause?: UpstreamFailure): void {
    this.#quorum.onFailure(reason, cause);
  }
}

function isSame(a: Vote, b: Vote): boolean {
  return a.kind === b.kind && a.bytes.equals(b.bytes);
}
