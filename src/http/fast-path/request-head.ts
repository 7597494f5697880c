/**
 * Reads the head of an ordinary request: HTTP/1.1, an origin-form target, one line per field, each field at most once,
 * visible ASCII, and a body of known length. All others are left to node:http, which implements the rest of RFC 9112.
 * Nothing is guessed here: node:http would read every accepted head the same way (test/http/fast-path compares both).
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { ClientRequest } from "../../message/request-head.ts";
import { isHost } from "../framing.ts";

export interface RequestHead extends ClientRequest {
  readonly bodyBytes: number;
  /** False if the client requests that the connection is closed after the answer. */
  readonly keepsAlive: boolean;
}

/** HEAD is left out because it is rare and its answer has no body; CONNECT and TRACE are not supported. */
const headPattern =
  /^(GET|POST|PUT|PATCH|DELETE|OPTIONS) (\/[!"$-~]*) HTTP\/1\.1\r\n(?:[!#$%&'*+.^`|~\w-]+:[\t -~]*\r\n)+$/;

/** Nine digits are enough, because larger bodies are not served on the fast path. */
const lengthPattern = /^\d{1,9}$/;

/**
 * Fields that need node:http: those that require more than an answer, the one whose value node:http converts to a list,
 * and the one that its parser treats as Connection.
 */
const unsupportedFields = [
  "transfer-encoding",
  "upgrade",
  "expect",
  "set-cookie",
  "proxy-connection",
] as const;

/** Returns undefined if the head is not an ordinary one. `text`: the head without the empty line at its end. */
export function readHead(text: string, socket: Socket): RequestHead | undefined {
  const line = headPattern.exec(text);
  if (line === null) return undefined;
  const [, method = "", url = ""] = line;
  const headers: IncomingHttpHeaders = {};
  const rawHeaders: string[] = [];
  // "METHOD url HTTP/1.1\r\n"
  for (let at = method.length + url.length + 12; at < text.length;) {
    const colon = text.indexOf(":", at);
    const end = text.indexOf("\r\n", colon);
    const name = text.slice(at, colon);
    const value = text.slice(colon + 1, end).trim();
    const key = name.toLowerCase();
    // A duplicate field, or a name inherited from Object.prototype. node:http knows how to join duplicates.
    if (key in headers) return undefined;
    headers[key] = value;
    rawHeaders.push(name, value);
    at = end + 2;
  }
  const { host, connection = "keep-alive", "content-length": length = "0" } = headers;
  const option = connection.toLowerCase();
  if (host === undefined || !isHost(host) || !lengthPattern.test(length)) return undefined;
  if (option !== "keep-alive" && option !== "close") return undefined;
  if (unsupportedFields.some((name) => headers[name] !== undefined)) return undefined;
  const keepsAlive = option === "keep-alive";
  const bodyBytes = Number(length);
  return { method, url, headers, rawHeaders, httpVersionMinor: 1, socket, bodyBytes, keepsAlive };
}
