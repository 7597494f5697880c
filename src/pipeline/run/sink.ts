/** The streamed answer: chunks are sent as they come, and the last byte waits for the `responseEnd` hooks. */
import type { Sink } from "../../plugin.ts";
import type { LiveExchange } from "./exchange.ts";
import { flush } from "./flush.ts";
import {
  responseChunk,
  responseEnd,
  responseHeaders,
  type ReplaceableChunk,
} from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";
import { fail, isBodiless, writeHead } from "./reply.ts";
import { LiveResponseHead } from "./response-head.ts";
import type { FailedOutcome } from "./states.ts";
import { countFailure } from "./step-failures.ts";

export async function openSink(
  x: LiveExchange,
  status: number,
  headers: readonly string[],
): Promise<Sink> {
  const head = new LiveResponseHead({ status, headers }, "surface", true);
  try {
    await runHooks(x, responseHeaders, head);
    return new ResponseSink(x, head);
  } catch (error) {
    x.streamFailed();
    throw error;
  }
}

class ResponseSink implements Sink {
  onDrain: (() => void) | undefined = undefined;
  readonly #x: LiveExchange;
  readonly #chunk: ReplaceableChunk = { bytes: new Uint8Array() };
  /**
   * Number of body bytes that are missing according to Content-Length. Undefined for a chunked body, whose terminator
   * is the last byte.
   */
  #remaining: number | undefined;
  /** The chunk with the last byte, which is kept until the exchange may end. */
  #held: Uint8Array | undefined;
  #hasEnded = false;
  /** True if a hook can add bytes after the last chunk. */
  readonly #flushes: boolean;

  constructor(x: LiveExchange, head: LiveResponseHead) {
    this.#x = x;
    const { req, res } = x.arrival;
    // A hook may change the size of a chunk, so the announced length can be wrong.
    const hasBody = req.method !== "HEAD" && !isBodiless(head.status);
    const { responseChunk: chunkHooks, responseFlush } = x.compiled;
    this.#flushes = hasBody && responseFlush.length > 0;
    if (this.#flushes || (hasBody && chunkHooks.length > 0)) head.remove("content-length");
    const length = head.get("content-length");
    const holds = length !== undefined && x.compiled.responseEnd.length > 0;
    this.#remaining = holds ? Number(length) : undefined;
    if (x.hasEnded) return;
    // HTTP/1.0 has no chunks that trailers could follow, and node:http throws if they are announced.
    if (req.httpVersionMinor === 0) head.remove("trailer");
    writeHead(x, head);
    res.onDrain = this;
    // The head is sent with the first chunk if one follows at once.
    setImmediate(() => {
      if (!this.#hasEnded && !x.hasEnded) res.flushHeaders();
    });
  }

  write(chunk: Uint8Array | string, encoding: "utf8" | "latin1" = "utf8"): boolean {
    if (this.#x.hasEnded || this.#hasEnded) return true;
    if (typeof chunk === "string") return this.#writeText(chunk, encoding);
    const bytes = this.#filtered(chunk);
    if (bytes === undefined || bytes.length === 0) return true;
    if (this.#remaining !== undefined) {
      this.#remaining -= bytes.length;
      if (this.#remaining <= 0) {
        this.#hold(bytes);
        return true;
      }
    }
    return this.#send(bytes, bytes.length);
  }

  #writeText(text: string, encoding: "utf8" | "latin1"): boolean {
    const needsBytes = this.#remaining !== undefined || this.#x.compiled.responseChunk.length > 0;
    if (needsBytes) return this.write(Buffer.from(text, encoding));
    const length = encoding === "latin1" ? text.length : Buffer.byteLength(text);
    return text === "" || this.#send(text, length);
  }

  #send(chunk: Uint8Array | string, length: number): boolean {
    const x = this.#x;
    const hasRoom = x.arrival.res.writeChunk(chunk, length);
    x.record.bodyBytes += length;
    if (!hasRoom) x.watchReader();
    return hasRoom;
  }

  drained(): void {
    if (this.#hasEnded) return;
    this.#x.stopReaderWatch();
    this.#x.runCallback(this.onDrain);
  }

  #hold(bytes: Uint8Array): void {
    this.#held = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes]);
  }

  /** Returns the chunk after the hooks. Undefined if a hook threw; the connection is then cut. */
  #filtered(bytes: Uint8Array): Uint8Array | undefined {
    if (this.#x.compiled.responseChunk.length === 0) return bytes;
    const chunk = this.#chunk;
    chunk.bytes = bytes;
    try {
      void runHooks(this.#x, responseChunk, chunk);
      return chunk.bytes;
    } catch (error) {
      fail(this.#x, error);
      return undefined;
    }
  }

  #flush(): void {
    try {
      const rest = flush(this.#x);
      if (rest !== undefined) this.#hold(rest);
    } catch (error) {
      fail(this.#x, error);
    }
  }

  async end(
    trailers?: readonly string[],
    last?: Uint8Array,
    outcome?: FailedOutcome,
  ): Promise<void> {
    const x = this.#x;
    if (this.#hasEnded) return;
    x.hasClosedStream = true;
    x.setReportedOutcome(outcome);
    const lastBytes = last === undefined || x.hasEnded ? undefined : this.#filtered(last);
    if (lastBytes !== undefined && lastBytes.length > 0) this.#hold(lastBytes);
    if (this.#flushes && !x.hasEnded) this.#flush();
    if (!(await this.#mayEnd())) return this.fail("upstreamFailed");
    if (this.#hasEnded || x.hasEnded) return;
    this.#hasEnded = true;
    const held = this.#held;
    if (held !== undefined) x.record.bodyBytes += held.length;
    const fields = trailers === undefined || trailers.length === 0 ? undefined : pairs(trailers);
    const { res } = x.arrival;
    await new Promise<void>((resolve) => {
      res.endChunks(held, fields, resolve);
      x.watchReader();
    });
  }

  fail(outcome: FailedOutcome): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#x.hasClosedStream = true;
    this.#x.cutOff(outcome);
  }

  /** Waits for the `responseEnd` hooks. Bytes have been sent, so a refusal can only cut the answer. */
  async #mayEnd(): Promise<boolean> {
    const x = this.#x;
    try {
      return (await runHooks(x, responseEnd, x.answerOutcome, x.nextResponseEnd)) === undefined;
    } catch (error) {
      if (countFailure(x, x.currentStep, error)) {
        const { requestId } = x.facts;
        const fields = { err: error, step: x.currentStep?.name, requestId };
        x.runtime.log.error(fields, "a responseEnd hook failed");
      }
      return false;
    }
  }
}

function pairs(flat: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) list.push([flat[at] ?? "", flat[at + 1] ?? ""]);
  return list;
}
