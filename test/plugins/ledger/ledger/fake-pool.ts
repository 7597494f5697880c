/** A pool of nodes whose calls the test answers. */
import type {
  NodeFailure,
  NodePool,
  NodeRequest,
} from "../../../../plugins/ledger/ledger/node-pool.ts";

export class FakePool implements NodePool {
  finalized: number | undefined;
  best: number | undefined;
  epoch = 1;
  ready = true;
  readonly firstProbe = Promise.resolve();
  closed = false;
  /** Calls that have been sent and not answered, oldest first. */
  readonly waiting: NodeRequest[] = [];
  /** All calls that were sent, as `method params`. */
  readonly sent: string[] = [];

  send(request: NodeRequest): void {
    this.sent.push(`${request.method} ${request.params}`);
    this.waiting.push(request);
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  /** Answers the oldest call with a JSON text, and overwrites the bytes afterwards, as a real pool may. */
  result(text: string): void {
    this.#answer("result", text);
  }

  error(text: string): void {
    this.#answer("error", text);
  }

  fail(reason: NodeFailure): void {
    this.#next().onError(reason);
  }

  #answer(kind: "result" | "error", text: string): void {
    const request = this.#next();
    const bytes = Buffer.from(`{"id":1,"${kind}":${text}}`);
    const start = `{"id":1,"${kind}":`.length;
    request.onAnswer(kind, bytes, start, bytes.length - 1);
    bytes.fill("#");
  }

  #next(): NodeRequest {
    const request = this.waiting.shift();
    if (request === undefined) throw new Error("no call is waiting");
    return request;
  }
}
