/**
 * Sends the cheap calls of one turn of the event loop as one JSON-RPC batch: one write, one read and one head instead
 * of many. A node works through a batch one item after the other, so only calls that cost it next to nothing ride.
 */
import type { Clock } from "../../../../src/services/clock.ts";
import { splitBatch, type SplitResponse } from "../../../../src/http/json/response.ts";
import { noId, type Call, type Job, type NodeClient } from "./call.ts";
import { failures, type Failure } from "./failure.ts";
import type { HttpClient } from "./http-client.ts";

/** More would keep the first waiting for the last. */
const batchCalls = 32;
/** A node that refused a batch gets none for this long. */
const refusedMs = 60_000;

export class MergingClient implements NodeClient {
  readonly #client: HttpClient;
  readonly #clock: Clock;
  #gathered: Call[] = [];
  #turn: NodeJS.Immediate | undefined;
  #refused: Disposable | undefined;

  constructor(client: HttpClient, clock: Clock) {
    this.#client = client;
    this.#clock = clock;
  }

  get inFlight(): number {
    return this.#client.inFlight + this.#gathered.length;
  }

  get lastError(): string | undefined {
    return this.#client.lastError;
  }

  send(call: Call): void {
    if (!call.question.cheap || !call.retry || this.#refused !== undefined) {
      return this.#client.send(call);
    }
    // Each client socket is read in a callback of its own; the check phase comes after all of them.
    this.#turn ??= setImmediate(() => this.#flush());
    if (this.#gathered.push(call) === batchCalls) this.#flush();
  }

  async close(): Promise<void> {
    this.#flush();
    this.#refused?.[Symbol.dispose]();
    await this.#client.close();
  }

  /** Sends calls one by one: the node would not take them together. */
  sendAlone(calls: readonly (Call | undefined)[]): void {
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

class Batch implements Job {
  readonly retry = true;
  deadline = 0;
  /** In the order sent; undefined once it has ended. */
  readonly #calls: (Call | undefined)[];
  readonly #client: MergingClient;

  constructor(calls: (Call | undefined)[], client: MergingClient) {
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

  respond(status: number, bytes: Buffer, start: number, end: number): void {
    const answers = status < 300 ? splitBatch(bytes, start, end) : undefined;
    if (answers === undefined || isRefusal(answers)) return this.#client.sendAlone(this.#calls);
    let at = 0;
    for (const answer of answers) {
      const call = this.#take(answer.id, at++);
      call?.answered(answer.kind, bytes, answer.start, answer.end);
    }
    this.#failRest(failures.garbage);
  }

  fail(failure: Failure): void {
    // All answers together were too large; each alone may not be.
    if (failure === failures.tooLarge) this.#client.sendAlone(this.#calls);
    else this.#failRest(failure);
  }

  /** The call with this id, most likely at the same place; undefined when there is none, or no more. */
  #take(id: number, likely: number): Call | undefined {
    const calls = this.#calls;
    const at = calls[likely]?.id === id ? likely : calls.findIndex((call) => call?.id === id);
    const call = calls[at];
    if (call !== undefined) calls[at] = undefined;
    return call;
  }

  #failRest(failure: Failure): void {
    for (const call of this.#calls) call?.fail(failure);
  }
}

/** One error without an id: batches unsupported (-32005), too large (-32010), its answer too large (-32011). */
function isRefusal(answers: readonly SplitResponse[]): boolean {
  const [only] = answers;
  return answers.length === 1 && only?.kind === "error" && only.id === noId;
}
