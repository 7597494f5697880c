/**
 * Sends JSON-RPC calls to one node as HTTP POST requests, over the gateway's own HTTP/1.1 client.
 *
 * A call that the node has received cannot be cancelled, because the node works on it until it has answered. If the
 * client closed the connection instead, callers that cancel could give the node more work than it has connections.
 */
import {
  BodyCollector,
  Http1Client,
  type Http1Carrier,
  type RetryPolicy,
  type ResponseHead,
  type UpstreamExchange,
} from "sluice-gateway/internal/http";
import type { Clock, Log, UpstreamFailure } from "sluice-gateway/plugin";
import { failures, type NodeCall, type NodeHttpRequest, type NodeClient } from "./node-call.ts";
import { requestHead } from "./request-head.ts";

export interface ClientOptions {
  readonly url: URL;
  readonly connections: number;
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  readonly answerBytes: number;
  readonly clock: Clock;
  readonly log: Log;
}

const unusedMs = 60_000;

export class HttpClient implements NodeClient {
  readonly #client: Http1Client;
  readonly #head: string;
  readonly #answerMs: number;
  #nextId = 0;

  constructor({ headersMs, answerBytes, log, ...rest }: ClientOptions) {
    this.#head = requestHead(rest.url);
    this.#answerMs = headersMs;
    this.#client = new Http1Client({
      ...rest,
      answerMs: headersMs,
      unusedMs,
      maxAnswerBytes: answerBytes,
      onBug: (error) => log.error({ err: error }, "the answer of a node could not be processed"),
    });
  }

  get inFlight(): number {
    return this.#client.inFlight;
  }

  send(call: NodeCall): void {
    this.number(call);
    this.sendJob(call);
  }

  /** Assigns an id to a call. Ids are limited to 30 bits, which V8 stores without an allocation. */
  number(call: NodeCall): void {
    this.#nextId = (this.#nextId + 1) & 0x3fff_ffff;
    call.id = this.#nextId;
  }

  sendJob(job: NodeHttpRequest): void {
    this.#client.send(new NodeHttpExchange(job, this.#head, this.#answerMs));
  }

  close(): Promise<void> {
    return this.#client.close();
  }
}

class NodeHttpExchange implements UpstreamExchange {
  readonly head: string;
  readonly answerMs: number;
  readonly caller: string | undefined;
  readonly #job: NodeHttpRequest;
  readonly #collector = new BodyCollector();
  #status = 0;
  #length = 0;

  constructor(job: NodeHttpRequest, head: string, answerMs: number) {
    this.#job = job;
    this.head = head;
    this.answerMs = answerMs;
    this.caller = job.caller;
  }

  get retryPolicy(): RetryPolicy {
    return this.#job.retry ? "ifUnanswered" : "never";
  }

  body(): string {
    return this.#job.text();
  }

  onStart(carrier: Http1Carrier): void {
    this.#job.onCarrier?.(carrier);
  }

  onHead({ status, length }: ResponseHead): void {
    this.#status = status;
    this.#length = length;
  }

  onData(bytes: Buffer, start: number, end: number): void {
    this.#collector.add(bytes, start, end, this.#length);
  }

  onRead(): void {}

  onEnd(): void {
    this.#job.onCarrier?.(undefined);
    const { bytes, start, end } = this.#collector;
    const status = this.#status;
    if (status === 429 || status >= 500) {
      this.#job.onError(failures.status, { kind: "status", status });
    } else this.#job.onResponse(status, bytes, start, end);
  }

  onError(cause: UpstreamFailure): void {
    this.#job.onCarrier?.(undefined);
    this.#job.onError(failures[cause.kind], cause);
  }
}
