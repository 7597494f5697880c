/**
 * Credentials in paths, for clients that cannot send headers. The core moves such a credential to the `Authorization`
 * header before any plugin sees the request, so steps find it where they look for every credential, and no log shows it.
 */
import type { RouteConfig } from "../../config/config.ts";
import { redact } from "../../base/redact.ts";
import type { ClientRequest, RoutedRequest } from "../../message/request-head.ts";

type Route = Pick<RouteConfig, "path" | "credential">;

/** Visible ASCII, which every key consists of. Anything else must not become a part of a header. */
const credentialForm = /^[!-~]+$/;
/** An escaped character that can be part of a key. */
const asciiEscape = /%([2-7][0-9a-f])/gi;

/**
 * Returns a function that removes the credential from the path of a request. `route`: the route that serves the request,
 * or that of requests without a route, whose paths may be misspelled forms of a path with a credential.
 */
export function credentialRemover(
  routes: readonly Route[],
): <R extends RoutedRequest>(request: R, route: Route) => R {
  const withCredential = routes.filter(({ credential }) => credential !== undefined);
  if (withCredential.length === 0) return (request) => request;
  const known = new Set(routes.map(({ path }) => path));
  return (request, { path, credential }) => {
    if (credential !== undefined) return moveCredential(request, path, credential);
    return known.has(path) ? request : hideCredential(request, withCredential);
  };
}

/** An `Authorization` header that the client sent has precedence over the credential in the path. */
function moveCredential<R extends RoutedRequest>(
  request: R,
  pattern: string,
  credential: string,
): R {
  const { [credential]: value = "", ...params } = request.params;
  const name = `{${credential}}`;
  const wanted = pattern.split("/");
  const segments = request.path.split("/");
  const path = segments.map((text, index) => (wanted[index] === name ? name : text)).join("/");
  const { headers } = request.req;
  const isUsed = headers.authorization === undefined && credentialForm.test(value);
  const moved = isUsed ? { ...headers, authorization: `Bearer ${value}` } : headers;
  return { ...withPath(request, path, moved), params };
}

/** Replaces the segment at the position of a credential, and everything after it. Otherwise, replaces keys anywhere. */
function hideCredential<R extends RoutedRequest>(request: R, routes: readonly Route[]): R {
  const segments = request.path.split("/");
  for (const { path, credential } of routes) {
    const name = `{${credential}}`;
    const front = path.split("/").slice(0, path.split("/").indexOf(name));
    const isLike = front.every((text, index) => text.startsWith("{") || text === segments[index]);
    if (!isLike || segments.length <= front.length) continue;
    const shown = [...segments.slice(0, front.length), name].join("/");
    return withPath(request, shown, request.req.headers);
  }
  const decoded = request.path.replace(asciiEscape, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  const shown = redact(decoded);
  return shown === decoded ? request : withPath(request, shown, request.req.headers);
}

function withPath<R extends RoutedRequest>(
  request: R,
  path: string,
  headers: ClientRequest["headers"],
): R {
  const { method, httpVersionMinor, rawHeaders, socket } = request.req;
  const target = request.query === "" ? path : `${path}?${request.query}`;
  const req: ClientRequest = { method, url: target, httpVersionMinor, headers, rawHeaders, socket };
  return { ...request, req, path, target };
}
