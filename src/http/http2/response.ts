import { validateHeaderName, validateHeaderValue } from "node:http";
import { constants, type OutgoingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import type { ClientResponse, ResponseOwner } from "../../message/client-response.ts";
import { writePlain } from "../chunk-frame.ts";

/** Fields about the connection, which HTTP/2 does not have (RFC 9113 section 8.2.2). */
const connectionFields = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

export class Http2Response implements ClientResponse {
  owner: ResponseOwner | undefined = undefined;
  shouldKeepAlive = true;
  headersSent = false;
  writableFinished = false;
  onDrain: ClientResponse["onDrain"] = undefined;
  onHalfClose: (() => void) | undefined = undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #isRequestComplete: () => boolean;
  #head: OutgoingHttpHeaders | undefined;
  #isClosed = false;
  #awaitsDrain = false;
  #trailers: [string, string][] = [];
  #done: (() => void) | undefined;

  constructor(stream: ServerHttp2Stream, isRequestComplete: () => boolean) {
    this.#stream = stream;
    this.#isRequestComplete = isRequestComplete;
    stream.once("finish", () => {
      this.#closed(!stream.aborted);
      // The rest of a request whose response is complete is not needed (RFC 9113 section 8.1).
      if (!this.#isRequestComplete()) stream.close(constants.NGHTTP2_NO_ERROR);
      stream.resume();
    });
    stream.once("close", () => this.#closed(false));
  }

  get writableLength(): number {
    return this.#stream.writableLength;
  }

  begin(owner: ResponseOwner): void {
    this.owner = owner;
  }

  writeContinue(): void {
    if (!this.#stream.destroyed) this.#stream.additionalHeaders({ ":status": 100 });
  }

  writeEarlyHints(hints: Record<string, string | string[]>): void {
    if (!this.#stream.destroyed) this.#stream.additionalHeaders({ ...hints, ":status": 103 });
  }

  writeHead(status: number, fields: readonly string[] = []): void {
    if (this.headersSent) throw new Error("the response head is already written");
    if (!Number.isInteger(status) || status < 200 || status > 999) {
      throw new RangeError(`${status} is not a status of a response, expected 200 to 999`);
    }
    this.#head = { ...headersOf(fields), ":status": status };
    if (fields.some((name, at) => at % 2 === 0 && isClose(name, fields[at + 1]))) {
      this.shouldKeepAlive = false;
    }
    this.headersSent = true;
  }

  end(body: string | Uint8Array, encoding: "utf8" | "latin1"): void {
    this.#sendHead();
    if (this.#isWritable) this.#stream.end(body, encoding);
  }

  flushHeaders(): void {
    this.#sendHead();
  }

  writeChunk(chunk: Uint8Array | string, length: number): boolean {
    this.#sendHead();
    if (!this.#isWritable) return true;
    const hasRoom = writePlain(this.#stream, chunk, length);
    if (!hasRoom && !this.#awaitsDrain) {
      this.#awaitsDrain = true;
      this.#stream.once("drain", () => {
        this.#awaitsDrain = false;
        this.onDrain?.drained();
      });
    }
    return hasRoom;
  }

  endChunks(
    last: Uint8Array | undefined,
    trailers: [string, string][] | undefined,
    done: () => void,
  ): void {
    this.#done = done;
    this.#trailers = trailers ?? [];
    this.#sendHead();
    if (this.#isClosed) return done();
    if (!this.#isWritable) return;
    if (last === undefined) this.#stream.end();
    else this.#stream.end(last);
  }

  /**
   * Resets the stream, so that the client does not mistake the response for a complete one. `stream.close(code)` would
   * end it before the reset, which some clients treat as a complete response.
   */
  destroy(): void {
    this.#stream.destroy(new Error("the response cannot be completed"));
  }

  /** False for responses without a body, which end with their head, and for streams that the client has reset. */
  get #isWritable(): boolean {
    return this.#stream.writable && !this.#stream.destroyed && !this.#stream.closed;
  }

  #sendHead(): void {
    const head = this.#head;
    this.#head = undefined;
    const stream = this.#stream;
    if (head === undefined || stream.destroyed || stream.closed) return;
    // Trailers that were not announced are not sent.
    const waitForTrailers = head["trailer"] !== undefined;
    if (waitForTrailers) stream.once("wantTrailers", () => this.#sendTrailers());
    stream.respond(head, { waitForTrailers });
    // Closes the connection after the responses that have begun: a GOAWAY frame.
    if (!this.shouldKeepAlive) stream.session?.close();
  }

  #sendTrailers(): void {
    if (!this.#stream.destroyed) this.#stream.sendTrailers(headersOf(this.#trailers.flat()));
  }

  #closed(isComplete: boolean): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.writableFinished = isComplete;
    this.owner?.onClose(isComplete);
    this.#done?.();
  }
}

function isClose(name: string, value = ""): boolean {
  return name.toLowerCase() === "connection" && value.toLowerCase() === "close";
}

/** Throws for a field that HTTP does not allow. Repeated fields are joined, except cookies. */
function headersOf(fields: readonly string[]): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (let at = 0; at + 1 < fields.length; at += 2) {
    const name = (fields[at] ?? "").toLowerCase();
    const value = fields[at + 1] ?? "";
    validateHeaderName(name);
    validateHeaderValue(name, value);
    if (connectionFields.has(name)) continue;
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else if (name === "set-cookie") headers[name] = [before, value].flat().map(String);
    else headers[name] = `${String(before)}, ${value}`;
  }
  return headers;
}
