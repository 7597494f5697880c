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
  const { rawHeaders } = request;
  if (host !== undefined && (isRepeated(rawHeaders, "host") || !isHost(host))) return hosts;
  if (request.headers.authorization !== undefined && isRepeated(rawHeaders, "authorization")) {
    return credentials;
  }
  const target = request.url ?? "";
  return target.startsWith("/") || agrees(target, host) ? undefined : authority;
}

/**
 * Whether a field is sent more than once. node:http keeps the first value of Host and of Authorization; an upstream, or a
 * proxy in front of the gateway, might keep the last and so see another host or another caller.
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
