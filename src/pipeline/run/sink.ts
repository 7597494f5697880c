/** The streamed answer: chunks go to the client's socket as they come, the last byte waits for `responseEnd`. */
import type { Sink } from "../../plugin.ts";
import { closeIfUnread, crash, filterChunk, responseHeaders, runCallback } from "./answer.ts";
import type { LiveExchange } from "./exchange.ts";
import { LiveResponseHead } from "./response-head.ts";
import { forgiven, shadowed } from "./shadow.ts";
import { inTime, StepTimeout } from "./step-limit.ts";
import { startTime, stopTime } from "../observe/step-stats.ts";
import { addTrace } from "../observe/trace-header.ts";

/** Sends the head through the hooks and hands the surface its sink. */
export async function openSink(
  x: LiveExchange,
  status: number,
  headers: readonly string[],
): Promise<Sink> {
  const head = new LiveResponseHead({ status, headers }, "surface", true);
  try {
    await responseHeaders(x, head, 0);
    return new ResponseSink(x, head);
  } catch (error) {
    // Nothing has been sent: the exchange can still be answered with a reply.
    x.streaming = false;
    throw error;
  }
}

class ResponseSink implements Sink {
  onDrain: (() => void) | undefined = undefined;
  readonly #x: LiveExchange;
  /** Body bytes still to come by Content-Length; undefined: chunked, whose terminator is the last byte. */
  #remaining: number | undefined;
  /** The chunk with the last byte, kept back until the exchange may end. */
  #held: Uint8Array | undefined;
  #ended = false;

  constructor(x: LiveExchange, head: LiveResponseHead) {
    this.#x = x;
    const { req, res } = x.arrival;
    // A hook may change how long a chunk is: the size that the upstream announced holds no more.
    const hasBody = req.method !== "HEAD" && head.status !== 204 && head.status !== 304;
    if (hasBody && x.compiled.responseChunk.length > 0) head.remove("content-length");
    const length = head.get("content-length");
    const holds = length !== undefined && x.compiled.responseEnd.length > 0;
    this.#remaining = holds ? Number(length) : undefined;
    if (x.closed) return;
    closeIfUnread(x, head);
    // HTTP/1.0 has no chunks that trailers could follow: node:http throws at their announcement.
    if (req.httpVersionMinor === 0) head.remove("trailer");
    if (x.wantsTrace) addTrace(x, head);
    res.writeHead(head.status, head.fields);
    x.sent.status = head.status;
    x.sent.code = head.code;
    res.onDrain = () => this.#drained();
    // The head leaves with the first chunk where one follows at once, else on its own.
    setImmediate(() => {
      if (!this.#ended && !x.closed) res.flushHeaders();
    });
  }

  write(chunk: Uint8Array | string, encoding: "utf8" | "latin1" = "utf8"): boolean {
    const x = this.#x;
    if (x.closed || this.#ended) return true;
    if (typeof chunk === "string") return this.#writeText(chunk, encoding);
    const bytes = this.#filtered(chunk);
    if (bytes === undefined || bytes.length === 0) return true;
    if (this.#remaining !== undefined) {
      this.#remaining -= bytes.length;
      if (this.#remaining <= 0) {
        this.#keep(bytes);
        return true;
      }
    }
    return this.#send(bytes, bytes.length);
  }

  /** Hooks, and a body of known length, want bytes. */
  #writeText(text: string, encoding: "utf8" | "latin1"): boolean {
    const wantsBytes = this.#remaining !== undefined || this.#x.compiled.responseChunk.length > 0;
    if (wantsBytes) return this.write(Buffer.from(text, encoding));
    const length = encoding === "latin1" ? text.length : Buffer.byteLength(text);
    return text === "" || this.#send(text, length);
  }

  /** False asks to stop until there is room. */
  #send(chunk: Uint8Array | string, length: number): boolean {
    const x = this.#x;
    const room = x.arrival.res.writeChunk(chunk, length);
    x.sent.bodyBytes += length;
    if (!room) x.watchReader();
    return room;
  }

  #drained(): void {
    if (this.#ended) return;
    this.#x.unwatchReader();
    runCallback(this.#x, this.onDrain);
  }

  /** Passes the hooks and waits for the end. */
  #hold(chunk: Uint8Array): void {
    const bytes = this.#filtered(chunk);
    if (bytes !== undefined && bytes.length > 0) this.#keep(bytes);
  }

  #keep(bytes: Uint8Array): void {
    this.#held = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
  }

  /** The chunk as the hooks leave it; undefined when one threw and the exchange was cut. */
  #filtered(chunk: Uint8Array): Uint8Array | undefined {
    if (this.#x.compiled.responseChunk.length === 0) return chunk;
    try {
      return filterChunk(this.#x, chunk);
    } catch (error) {
      crash(this.#x, error);
      return undefined;
    }
  }

  async end(
    trailers?: readonly string[],
    last?: Uint8Array,
    outcome?: "upstreamFailed" | "timedOut",
  ): Promise<void> {
    const x = this.#x;
    if (this.#ended) return;
    if (outcome !== undefined) x.forcedOutcome = outcome;
    if (last !== undefined && !x.closed) this.#hold(last);
    if (!(await this.#mayEnd())) return this.fail("upstreamFailed");
    if (this.#ended || x.closed) return;
    this.#ended = true;
    const held = this.#held;
    if (held !== undefined) x.sent.bodyBytes += held.length;
    const fields = trailers === undefined || trailers.length === 0 ? undefined : pairs(trailers);
    const { res } = x.arrival;
    await new Promise<void>((resolve) => {
      res.endChunks(held, fields, resolve);
      if (res.writableLength > 0) x.watchReader();
    });
  }

  fail(outcome: "upstreamFailed" | "timedOut"): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#x.cutOff(outcome);
  }

  /** Waits for every `responseEnd` hook. Bytes have left: a refusal can only cut the answer short. */
  async #mayEnd(): Promise<boolean> {
    const x = this.#x;
    for (const step of x.compiled.responseEnd) {
      if (step.depth >= x.entered || x.skips(step.depth)) continue;
      const since = startTime(x);
      try {
        const result = step.hooks.responseEnd(x, x.forcedOutcome);
        const reply =
          result instanceof Promise ? await inTime(x, step, "responseEnd", result) : result;
        stopTime(x, step.depth, since);
        if (reply !== undefined && !shadowed(x, step, reply)) return false;
      } catch (error) {
        if (forgiven(x, step, error)) continue;
        if (!(error instanceof StepTimeout)) {
          const requestId = x.peek("requestId");
          const fields = { err: error, step: step.name, requestId };
          x.runtime.log.error(fields, "a responseEnd hook failed");
        }
        return false;
      }
    }
    return true;
  }
}

function pairs(flat: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) list.push([flat[at] ?? "", flat[at + 1] ?? ""]);
  return list;
}
