/**
 * Refuses requests from browser pages of other sites, under any name of this gateway. With DNS rebinding, the requests
 * of a foreign page arrive on a loopback address with the host name of that page in `Host` and `Origin`.
 */
import { isLoopback } from "sluice-gateway/internal/http";
import { refuse, type Reply, type RequestHead } from "sluice-gateway/plugin";

interface RequestGuardOptions {
  /** Allowed values of `Origin`. If undefined, loopback names with any scheme and port are allowed. */
  readonly origins?: readonly string[] | undefined;
  /**
   * Allowed names in `Host`, without port. If undefined, loopback names are allowed for clients on this machine, and
   * any name for others.
   */
  readonly hosts?: readonly string[] | undefined;
}

const forbidden = (what: string): Reply =>
  refuse("GATEWAY_PERMISSION_DENIED", { message: `the ${what} is not allowed here` });
const badOrigin = forbidden("origin");
const badHost = forbidden("host");
const badType = refuse("GATEWAY_INVALID_PARAMS", {
  status: 415,
  message: "content-type must be application/json",
});

/** Returns a check of requests, which returns the refusal, or undefined if the request is allowed. */
export function createRequestGuard({
  origins,
  hosts,
}: RequestGuardOptions): (request: RequestHead) => Reply | undefined {
  const allowedOrigins = origins && new Set(origins.map((origin) => origin.toLowerCase()));
  const allowedHosts = hosts && new Set(hosts.map((host) => host.toLowerCase()));
  const originPasses = (origin: string): boolean =>
    allowedOrigins === undefined
      ? isLoopback(nameOf(origin.slice(origin.indexOf("://") + 3)))
      : allowedOrigins.has(origin.toLowerCase());
  const hostPasses = (name: string, { peer }: RequestHead): boolean => {
    if (allowedHosts !== undefined) return allowedHosts.has(name);
    // A proxy on this machine (`server.trustProxy`) forwards the public name.
    return peer.trusted || !isLoopbackAddress(peer.address) || isLoopback(name);
  };
  return (request) => {
    const { origin, host, "content-type": type } = request.headers;
    if (origin !== undefined && !originPasses(origin)) return badOrigin;
    if (host !== undefined && !hostPasses(nameOf(host), request)) return badHost;
    return request.method === "DELETE" || isJson(type) ? undefined : badType;
  };
}

/** IPv6 addresses keep their brackets. */
function nameOf(authority: string): string {
  const end = authority.startsWith("[") ? authority.indexOf("]") + 1 : authority.indexOf(":");
  return (end <= 0 ? authority : authority.slice(0, end)).toLowerCase();
}

function isLoopbackAddress(address: string): boolean {
  return address.startsWith("127.") || address === "::1" || address.startsWith("::ffff:127.");
}

function isJson(type: string | undefined): boolean {
  if (type === "application/json") return true;
  return type?.split(";", 1)[0]?.trim().toLowerCase() === "application/json";
}
