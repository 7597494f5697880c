/** The client that `host.upstream` returns: whole answers over the gateway's own HTTP/1.1 client. */
import type { Clock } from "../../contract/clock.ts";
import type { Log } from "../../contract/log.ts";
import type { UpstreamFailure } from "../../contract/upstream-failure.ts";
import type {
  UpstreamAnswer,
  UpstreamClient,
  UpstreamClientOptions,
  UpstreamRequest,
} from "../../contract/upstream.ts";
import { failureText } from "./failure-cause.ts";
import { fieldLines, repeatableFields, withUpstreamField } from "../../message/headers.ts";
import { BodyCollector } from "./http1/body-collector.ts";
import { Http1Client } from "./http1/client.ts";
import type { Http1Carrier, RetryPolicy, UpstreamExchange } from "./http1/exchange.ts";
import type { ResponseHead } from "./http1/response-head.ts";
import { createFetch } from "./plugin-fetch.ts";

/** Methods whose requests may be repeated (RFC 9110 section 9.2.2). */
const idempotent = new Set(["GET", "HEAD", "PUT", "DELETE", "OPTIONS"]);
const methodPattern = /^[A-Z]{1,20}$/;
const targetPattern = /^\/[\x21-\x7e]*$/;

/** Shorter than the 5 s after which many servers close an idle connection. */
const unusedMs = 4_000;

export class PluginClient implements UpstreamClient {
  readonly fetch: UpstreamClient["fetch"];
  readonly #url: URL;
  readonly #client: Http1Client;
  readonly #answerMs: number;
  #problem: string | undefined;

  constructor(
    url: URL,
    options: UpstreamClientOptions,
    { clock, log }: { readonly clock: Clock; readonly log: Log },
  ) {
    const { connections = 16, connectMs = 2_000, answerMs = 10_000 } = options;
    const { idleMs = 10_000, maxAnswerBytes = 1 << 20 } = options;
    this.#url = url;
    this.#answerMs = answerMs;
    this.fetch = createFetch(url, (request) => this.request(request));
    this.#client = new Http1Client({
      url,
      connections,
      connectMs,
      answerMs,
      idleMs,
      unusedMs,
      maxAnswerBytes,
      keepsFields: true,
      clock,
      onBug: (error) => log.error({ err: error }, "the answer of an upstream was not processed"),
    });
  }

  async request(request: UpstreamRequest = {}): Promise<UpstreamAnswer> {
    const { signal } = request;
    signal?.throwIfAborted();
    const exchange = new PluginExchange(this.#headOf(request), request, this.#answerMs);
    const abort = (): void => exchange.abort(signal?.reason);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      this.#client.send(exchange);
      const answer = await exchange.answer.promise;
      this.#problem = undefined;
      return answer;
    } catch (error) {
      if (signal?.aborted !== true) this.#problem = `no answer from ${this.#url.host}`;
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
  }

  ready(): true | string {
    return this.#problem ?? true;
  }

  /** Ends the requests in flight. Resolves when the last socket has closed. */
  close(): Promise<void> {
    return this.#client.close();
  }

  /** Returns the request line and the fields. Throws a TypeError for what HTTP/1.1 cannot express. */
  #headOf({ method = "GET", path = "", headers = {} }: UpstreamRequest): string {
    const { host, pathname, search } = this.#url;
    const target = path === "" ? pathname + search : pathname.replace(/\/$/, "") + path;
    if (!methodPattern.test(method)) throw new TypeError(`invalid method "${method}"`);
    if (!targetPattern.test(target)) throw new TypeError(`invalid path "${path}"`);
    let fields: readonly string[] = [];
    for (const [name, value] of Object.entries(headers)) {
      fields = withUpstreamField(fields, name, value);
    }
    return `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\n${fieldLines(fields) ?? ""}`;
  }
}

class PluginExchange implements UpstreamExchange {
  readonly head: string;
  readonly retryPolicy: RetryPolicy;
  readonly answerMs: number;
  readonly answer = Promise.withResolvers<UpstreamAnswer>();
  readonly #body: string | Buffer | null;
  readonly #collector = new BodyCollector();
  #carrier: Http1Carrier | undefined;
  #status = 0;
  #length = -1;
  #fields: readonly string[] = [];

  constructor(head: string, { method = "GET", body }: UpstreamRequest, answerMs: number) {
    this.head = head;
    this.answerMs = answerMs;
    this.retryPolicy = idempotent.has(method) ? "ifUnanswered" : "ifUnwritten";
    this.#body = body ?? (method === "POST" || method === "PUT" || method === "PATCH" ? "" : null);
  }

  abort(reason: unknown): void {
    this.#carrier?.abort();
    this.answer.reject(reason);
  }

  body(): string | Buffer | null {
    return this.#body;
  }

  onStart(carrier: Http1Carrier): void {
    this.#carrier = carrier;
  }

  onHead({ status, length, fields }: ResponseHead): void {
    this.#status = status;
    this.#length = length;
    this.#fields = fields;
  }

  onData(bytes: Buffer, start: number, end: number): void {
    this.#collector.add(bytes, start, end, this.#length);
  }

  onRead(): void {}

  onEnd(): void {
    const { bytes, start, end } = this.#collector;
    this.#carrier = undefined;
    const fields = this.#fields;
    this.answer.resolve({
      status: this.#status,
      headers: byName(fields),
      get replyHeaders() {
        return repeatableFields(fields);
      },
      // The bytes are borrowed.
      body: Buffer.from(bytes.subarray(start, end)),
    });
  }

  onError(failure: UpstreamFailure): void {
    this.#carrier = undefined;
    const error = new Error(`the upstream did not answer: ${failureText(failure)}`);
    // The frames are those of a callback of a socket, which say nothing about the plugin that asked.
    error.stack = String(error);
    this.answer.reject(error);
  }
}

function byName(fields: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = Object.create(null) as Record<string, string>;
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = (fields[at] ?? "").toLowerCase();
    if (name === "set-cookie") continue;
    const value = fields[at + 1] ?? "";
    const earlier = headers[name];
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`;
  }
  return headers;
}
