import { validateHeaderName, validateHeaderValue } from "node:http";
import { LiveExchange } from "../pipeline/run/exchange.ts";
import type { ClientResponse, ResponseOwner } from "../message/client-response.ts";
import type { ClientRequest } from "../message/request-head.ts";

export interface TestRequest {
  /** Default: POST with a body, else GET. */
  readonly method?: string;
  /** Path with the query. Default: the path of the route. */
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The body. An object is sent as JSON, with the content type `application/json`. */
  readonly body?: string | Uint8Array | object;
}

export interface EncodedRequest {
  readonly head: ClientRequest;
  readonly body: Buffer;
}

export function encodeRequest(request: TestRequest, path: string): EncodedRequest {
  const { body } = request;
  const isJson = typeof body === "object" && !(body instanceof Uint8Array);
  const bytes =
    body instanceof Uint8Array
      ? Buffer.from(body)
      : Buffer.from(typeof body === "object" ? JSON.stringify(body) : (body ?? ""));
  const headers: Record<string, string> = {
    host: "gateway.test",
    ...(isJson && { "content-type": "application/json" }),
    ...(body !== undefined && { "content-length": String(bytes.length) }),
  };
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    headers[name.toLowerCase()] = value;
  }
  return {
    head: {
      method: request.method ?? (body === undefined ? "GET" : "POST"),
      url: request.path ?? path,
      httpVersionMinor: 1,
      headers,
      rawHeaders: Object.entries(headers).flat(),
      socket: { remoteAddress: "127.0.0.1", bytesRead: bytes.length },
    },
    body: bytes,
  };
}

/** Keeps a response. Like a socket, it reports its end to its owner only after the call that caused it has returned. */
export class MemoryResponse implements ClientResponse {
  shouldKeepAlive = true;
  headersSent = false;
  writableFinished = false;
  readonly writableLength = 0;
  onDrain: ClientResponse["onDrain"] = undefined;
  onHalfClose: (() => void) | undefined = undefined;
  exchange: LiveExchange | undefined = undefined;
  status = 0;
  readonly headers: Record<string, string> = {};
  readonly chunks: Buffer[] = [];
  /** Called once, before the first hook runs. */
  onBegin: ((x: LiveExchange) => void) | undefined = undefined;
  onChunk: ((chunk: Buffer) => void) | undefined = undefined;
  #owner: ResponseOwner | undefined = undefined;
  #isClosed = false;

  begin(owner: ResponseOwner): void {
    this.#owner = owner;
    if (!(owner instanceof LiveExchange)) return;
    this.exchange = owner;
    this.onBegin?.(owner);
  }

  writeContinue(): void {}

  writeEarlyHints(): void {}

  /** Throws for a field that HTTP does not allow, as the response of a client does. */
  writeHead(status: number, fields: string[] = []): void {
    for (let at = 0; at + 1 < fields.length; at += 2) {
      validateHeaderName(fields[at] ?? "");
      validateHeaderValue(fields[at] ?? "", fields[at + 1] ?? "");
    }
    this.headersSent = true;
    this.status = status;
    for (let at = 0; at + 1 < fields.length; at += 2) {
      const name = (fields[at] ?? "").toLowerCase();
      const value = fields[at + 1] ?? "";
      const known = this.headers[name];
      this.headers[name] = known === undefined ? value : `${known}, ${value}`;
    }
  }

  flushHeaders(): void {}

  end(body: string | Uint8Array, encoding: "utf8" | "latin1"): void {
    this.#keep(body, encoding);
    this.#finish();
  }

  writeChunk(chunk: Uint8Array | string): boolean {
    this.#keep(chunk, "utf8");
    return true;
  }

  endChunks(last: Uint8Array | undefined, _: unknown, done: () => void): void {
    if (last !== undefined) this.#keep(last, "utf8");
    this.#finish(done);
  }

  /** Closes the response. A client that leaves before it is complete has the same effect. */
  destroy(): void {
    this.#close();
  }

  /** Copies the bytes, because their owner may use the buffer again. */
  #keep(data: string | Uint8Array, encoding: "utf8" | "latin1"): void {
    const chunk = typeof data === "string" ? Buffer.from(data, encoding) : Buffer.from(data);
    if (chunk.length === 0) return;
    this.chunks.push(chunk);
    this.onChunk?.(chunk);
  }

  #finish(done?: () => void): void {
    if (this.#isClosed) return;
    this.writableFinished = true;
    process.nextTick(() => done?.());
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    process.nextTick(() => this.#owner?.onClose(this.writableFinished));
  }
}
