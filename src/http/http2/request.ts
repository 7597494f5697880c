/** A request over HTTP/2 in the form of HTTP/1.1, which plugins read (RFC 9113 section 8.3 names the differences). */
import { Readable } from "node:stream";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { Http1Framing } from "../framing.ts";
import type { ClientRequest, ClientSocket, RequestBody } from "../../message/request-head.ts";

export type Http2Request = ClientRequest & Http1Framing;

/** `raw`: names and values in order of arrival. `hasBody`: false if the head has ended the stream. */
export function http2Request(
  given: IncomingHttpHeaders,
  raw: readonly string[],
  hasBody: boolean,
  socket: ClientSocket,
): Http2Request {
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(given)) {
    if (!name.startsWith(":")) headers[name] = value;
  }
  const rawHeaders = fieldsOf(raw);
  const authority = given[":authority"];
  if (authority !== undefined) {
    // Two different hosts are two fields, which framing.ts refuses.
    if (headers.host !== authority) rawHeaders.unshift("host", authority);
    headers.host = authority;
  }
  if (hasBody && headers["content-length"] === undefined) {
    headers["transfer-encoding"] = "chunked";
    rawHeaders.push("transfer-encoding", "chunked");
  }
  return {
    method: given[":method"],
    url: given[":path"],
    httpVersionMajor: 1,
    httpVersionMinor: 1,
    headers,
    rawHeaders,
    socket,
  };
}

/** Removes the pseudo-header fields, and joins the parts of a cookie (RFC 9113 section 8.2.3). */
function fieldsOf(raw: readonly string[]): string[] {
  const fields: string[] = [];
  let cookieAt = -1;
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? "";
    const value = raw[at + 1] ?? "";
    if (name.startsWith(":")) continue;
    if (name === "cookie" && cookieAt !== -1) {
      fields[cookieAt] += `; ${value}`;
      continue;
    }
    fields.push(name, value);
    if (name === "cookie") cookieAt = fields.length - 1;
  }
  return fields;
}

/** The body is destroyed without an end if the client resets the stream. */
export class Http2Body extends Readable implements RequestBody {
  /** An unread body ends with its stream, and the connection remains. */
  readonly complete = true;
  readonly headers: IncomingHttpHeaders;
  readonly #stream: ServerHttp2Stream;

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    received: (bytes: number) => void,
  ) {
    super();
    this.headers = headers;
    this.#stream = stream;
    stream.pause();
    stream.on("data", (chunk: Buffer) => {
      received(chunk.length);
      if (!this.push(chunk)) stream.pause();
    });
    stream.once("end", () => {
      // A reset ends the stream, too.
      if (stream.aborted || stream.rstCode !== 0) this.destroy(reset());
      else this.push(null);
    });
    stream.once("close", () => {
      if (!this.readableEnded && !stream.readableEnded) this.destroy(reset());
    });
  }

  override _read(): void {
    this.#stream.resume();
  }

  /** Like node:http, reports an error only if somebody listens for it. The response reports that the client has left. */
  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    callback(this.listenerCount("error") === 0 ? null : error);
  }
}

function reset(): Error {
  return new Error("the client has reset the stream");
}
