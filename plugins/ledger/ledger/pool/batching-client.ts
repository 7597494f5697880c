/**
 * Sends the cheap calls of one turn of the event loop as one JSON-RPC batch, which saves writes, reads and request
 * heads. Nodes process a batch item by item, so expensive calls are not batched.
 */
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import { splitBatch, type SplitResponse } from "./split-response.ts";
import {
  failures,
  type Failure,
  noId,
  type NodeCall,
  type NodeHttpRequest,
  type NodeClient,
} from "./node-call.ts";
import type { HttpClient } from "./http-client.ts";

/** In a larger batch, the first call would wait too long for the last one. */
const maxBatchCalls = 32;
/** After a node has refused a batch, calls are sent to it separately for this time. */
const refusedMs = 60_000;

export class BatchingClient implements NodeClient {
  readonly #client: HttpClient;
  readonly #clock: Clock;
  #gathered: NodeCall[] = [];
  #turn: NodeJS.Immediate | undefined;
  #refused: Disposable | undefined;

  constructor(client: HttpClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  get inFlight(): number {
    return this.#client.inFlight + this.#gathered.length;
  }

  send(call: NodeCall): void {
    if (!call.spec.cheap || !call.retry || this.#refused !== undefined) {
      return this.#client.send(call);
    }
    // Each client socket is read in its own callback. `setImmediate` runs after all of them.
    this.#turn ??= setImmediate(() => this.#flush());
    if (this.#gathered.push(call) === maxBatchCalls) this.#flush();
  }

  async close(): Promise<void> {
    this.#flush();
    this.#refused?.[Symbol.dispose]();
    await this.#client.close();
  }

  sendAlone(calls: readonly (NodeCall | undefined)[]): void {
    this.#refused ??= this.#clock.after(refusedMs, () => (this.#refused = undefined));
    for (const call of calls) if (call !== undefined) this.#client.send(call);
  }

  #flush(): void {
    clearImmediate(this.#turn);
    this.#turn = undefined;
    const calls = this.#gathered;
    const [first] = calls;
    if (first === undefined) return;
    this.#gathered = [];
    if (calls.length === 1) return this.#client.send(first);
    for (const call of calls) this.#client.number(call);
    this.#client.sendJob(new Batch(calls, this));
  }
}

class Batch implements NodeHttpRequest {
  readonly retry = true;
  /** A batch has calls of several callers. */
  readonly caller = "batches";
  /** The calls in the order in which they were sent. Undefined for a call that has ended. */
  readonly #calls: (NodeCall | undefined)[];
  readonly #client: BatchingClient;

  constructor(calls: (NodeCall | undefined)[], client: BatchingClient) {
    this.#calls = calls;
    this.#client = client;
  }

  text(): string {
    let text = "[";
    for (const call of this.#calls) {
      if (text.length > 1) text += ",";
      text += call?.text() ?? "";
    }
    return `${text}]`;
  }

  onResponse(status: number, bytes: Buffer, start: number, end: number): void {
    const answers = status < 300 ? splitBatch(bytes, start, end) : undefined;
    if (answers === undefined || isRefusal(answers)) return this.#client.sendAlone(this.#calls);
    let at = 0;
    for (const answer of answers) {
      const call = this.#take(answer.id, at++);
      call?.onAnswer(answer.kind, bytes, answer.start, answer.end);
    }
    this.#failRest(failures.garbage);
  }

  onError(failure: Failure, cause?: UpstreamFailure): void {
    // The whole batch response was too large; the single responses may not be.
    if (failure === failures.tooLarge) this.#client.sendAlone(this.#calls);
    else this.#failRest(failure, cause);
  }

  /** `likely`: the probable index of the call. */
  #take(id: number, likely: number): NodeCall | undefined {
    const calls = this.#calls;
    const at = calls[likely]?.id === id ? likely : calls.findIndex((call) => call?.id === id);
    const call = calls[at];
    if (call !== undefined) calls[at] = undefined;
    return call;
  }

  #failRest(failure: Failure, cause?: UpstreamFailure): void {
    for (const call of this.#calls) call?.onError(failure, cause);
  }
}

/** The node does not support batches (-32005), or the batch (-32010) or its response (-32011) is too large. */
function isRefusal(answers: readonly SplitResponse[]): boolean {
  const [only] = answers;
  return answers.length === 1 && only?.kind === "error" && only.id === noId;
}
