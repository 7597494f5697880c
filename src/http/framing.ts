/**
 * Refuses requests that node:http accepts although two servers may read them differently: where the message ends, or
 * which host it is for (RFC 9112 sections 3.2, 6 and 11.2). They are refused before anything else reads them. The
 * parser itself refuses the other cases: two lengths, a length with chunks, folded lines, bare line feeds, NUL.
 */
import type { IncomingMessage } from "node:http";

/** The parts of a request that decide how it is framed. HTTP/2 requests have them in the form of HTTP/1.1. */
export type Http1Framing = Pick<
  IncomingMessage,
  "httpVersionMajor" | "httpVersionMinor" | "headers" | "rawHeaders" | "url"
>;

export interface FramingFault {
  readonly status: number;
  readonly message: string;
}

const version: FramingFault = {
  status: 505,
  message: "HTTP version not supported, expected HTTP/1.0 or HTTP/1.1",
};
const coding: FramingFault = {
  status: 501,
  message: "unsupported transfer coding, expected chunked",
};
const oldChunks: FramingFault = {
  status: 400,
  message: "Transfer-Encoding is not allowed in HTTP/1.0",
};
const hosts: FramingFault = {
  status: 400,
  message: "expected exactly one Host field with a valid value",
};
const credentials: FramingFault = {
  status: 400,
  message: "expected at most one Authorization field",
};
const authority: FramingFault = {
  status: 400,
  message: "the target and Host name different hosts",
};

/** Returns why the request must not be served. The connection must be closed after such an answer. */
export function framingFault(request: Http1Framing): FramingFault | undefined {
  if (request.httpVersionMajor !== 1) return version;
  const codings = request.headers["transfer-encoding"];
  if (codings !== undefined) {
    if (request.httpVersionMinor === 0) return oldChunks;
    if (codings.toLowerCase() !== "chunked") return coding;
  }
  const host = request.headers.host;
  const { rawHeaders } = request;
  if (host !== undefined && (isRepeated(rawHeaders, "host") || !isHost(host))) return hosts;
  if (request.headers.authorization !== undefined && isRepeated(rawHeaders, "authorization")) {
    return credentials;
  }
  const target = request.url ?? "";
  return target.startsWith("/") || agrees(target, host) ? undefined : authority;
}

/**
 * Returns true if a field occurs more than once. node:http keeps the first value of Host and Authorization. An
 * upstream, or a proxy in front of the gateway, might keep the last one and so see another host or caller.
 */
function isRepeated(rawHeaders: readonly string[], wanted: string): boolean {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === wanted.length && name.toLowerCase() === wanted) count++;
  }
  return count > 1;
}

const hostPattern = /^[\w.~!$&'()*+,;=:%[\]-]*$/;
/** The last valid host. Clients usually send the same host, which is then not checked again. */
let lastHost = "";

export function isHost(host: string): boolean {
  if (host === lastHost) return true;
  if (!hostPattern.test(host)) return false;
  lastHost = host;
  return true;
}

/** Returns true unless an absolute-form target names another host than `Host`. Other forms name no host. */
function agrees(target: string, host: string | undefined): boolean {
  const start = target.indexOf("://");
  if (start === -1 || host === undefined) return true;
  const end = target.slice(start + 3).search(/[/?#]/);
  const named = end === -1 ? target.slice(start + 3) : target.slice(start + 3, start + 3 + end);
  return withoutPort(named) === withoutPort(host);
}

/** Removes the default port of HTTP, which may be written or omitted. */
function withoutPort(named: string): string {
  const lower = named.toLowerCase();
  return lower.endsWith(":80") ? lower.slice(0, -3) : lower;
}
