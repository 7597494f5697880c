/**
 * Reads the head of an ordinary request: HTTP/1.1, an origin-form target, one line a field and each field once, visible
 * ASCII, a body of a length that is given. Whatever is not exactly that is left to node:http, which knows the rest of
 * RFC 9112 and refuses what nobody should serve. So nothing is guessed here, and what is taken node:http would read the
 * same (test/http/fast-path compares both).
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Socket } from "node:net";
import type { ClientRequest } from "../../pipeline/run/arrival.ts";
import { isHost } from "../framing.ts";

export interface RequestHead extends ClientRequest {
  /** By Content-Length; 0 without one. */
  readonly bodyBytes: number;
  /** False: the client asks for the connection's end behind the answer. */
  readonly keepsAlive: boolean;
}

/** HEAD, whose answer has no body, is rare; CONNECT and TRACE nobody serves. */
const headPattern =
  /^(GET|POST|PUT|PATCH|DELETE|OPTIONS) (\/[!"$-~]*) HTTP\/1\.1\r\n(?:[!#$%&'*+.^`|~\w-]+:[\t -~]*\r\n)+$/;

/** Nine digits: more than is ever read here at once. */
export const lengthPattern = /^\d{1,9}$/;

/**
 * Fields that ask for more than an answer, the one that node:http makes a list of, and the one that its parser reads as
 * Connection.
 */
const others = [
  "transfer-encoding",
  "upgrade",
  "expect",
  "set-cookie",
  "proxy-connection",
] as const;

/** Undefined for a head that is not an ordinary one. `text`: up to the empty line, which is not part of it. */
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
    // Twice the same, or a name that an object has of itself: how those are joined is node:http's to know.
    if (key in headers) return undefined;
    headers[key] = value;
    rawHeaders.push(name, value);
    at = end + 2;
  }
  const { host, connection = "keep-alive", "content-length": length = "0" } = headers;
  const option = connection.toLowerCase();
  if (host === undefined || !isHost(host) || !lengthPattern.test(length)) return undefined;
  if (option !== "keep-alive" && option !== "close") return undefined;
  if (others.some((name) => headers[name] !== undefined)) return undefined;
  const keepsAlive = option === "keep-alive";
  const bodyBytes = Number(length);
  return { method, url, headers, rawHeaders, httpVersionMinor: 1, socket, bodyBytes, keepsAlive };
}
