/**
 * What node:http lets through although two servers may read it differently: where a message ends, or whom it is for.
 * Such a request is refused before anything looks at it (RFC 9112 sections 3.2, 6 and 11.2). The parser itself refuses
 * the rest: two lengths, a length beside chunks, folded lines, bare line feeds, NUL.
 */
import type { IncomingMessage } from "node:http";

export interface FramingFault {
  readonly status: number;
  readonly message: string;
}

const version: FramingFault = {
  status: 505,
  message: "only HTTP/1.0 and HTTP/1.1 are spoken here",
};
const coding: FramingFault = { status: 501, message: "the only transfer coding is chunked" };
const oldChunks: FramingFault = { status: 400, message: "HTTP/1.0 has no transfer codings" };
const hosts: FramingFault = { status: 400, message: "a request has one Host, and a valid one" };
const authority: FramingFault = {
  status: 400,
  message: "the target and Host name different hosts",
};

/**
 * Why this request must not be served; undefined for nearly every one. The connection is to be closed after the answer.
 */
export function framingFault(request: IncomingMessage): FramingFault | undefined {
  if (request.httpVersionMajor !== 1) return version;
  const codings = request.headers["transfer-encoding"];
  if (codings !== undefined) {
    if (request.httpVersionMinor === 0) return oldChunks;
    if (codings.toLowerCase() !== "chunked") return coding;
  }
  const host = request.headers.host;
  if (host !== undefined && !(hostFields(request.rawHeaders) === 1 && isHost(host))) return hosts;
  const target = request.url ?? "";
  return target.startsWith("/") || agrees(target, host) ? undefined : authority;
}

/** node:http keeps the first of two Host fields; an upstream might keep the second. */
function hostFields(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at];
    if (name?.length === 4 && name.toLowerCase() === "host") count++;
  }
  return count;
}

const hostPattern = /^[\w.~!$&'()*+,;=:%[\]-]*$/;
/** Clients of a gateway name the same host over and over: the last valid one is not looked at again. */
let lastHost = "";

/** Whether this may be the value of a Host field. */
export function isHost(host: string): boolean {
  if (host === lastHost) return true;
  if (!hostPattern.test(host)) return false;
  lastHost = host;
  return true;
}

/** Whether an absolute-form target is for the host that `Host` names; other forms name none. */
function agrees(target: string, host: string | undefined): boolean {
  const start = target.indexOf("://");
  if (start === -1 || host === undefined) return true;
  const end = target.slice(start + 3).search(/[/?#]/);
  const named = end === -1 ? target.slice(start + 3) : target.slice(start + 3, start + 3 + end);
  return withoutPort(named) === withoutPort(host);
}

/** The port that plain HTTP has anyway may be written or not. */
function withoutPort(named: string): string {
  const lower = named.toLowerCase();
  return lower.endsWith(":80") ? lower.slice(0, -3) : lower;
}
