/** Decides which names in the Host header the admin listener accepts. */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";

/**
 * Returns why the Host header does not name this listener. Undefined if it does: an IP address, localhost, or one of
 * `names`. This prevents DNS rebinding, in which another name resolves to this address.
 */
export function hostProblem(
  { headers }: Pick<IncomingMessage, "headers">,
  names: readonly string[],
): string | undefined {
  const host = hostName(headers.host ?? "");
  if (host === undefined) return "the Host header is missing or not valid";
  if (isIP(host) !== 0 || host === "localhost" || host.endsWith(".localhost")) return undefined;
  if (names.some((name) => name.toLowerCase() === host)) return undefined;
  return `the host name "${host}" is not allowed: add it to admin.hosts in pipeline.yaml, or use the address`;
}

/** Returns the host in lower case without port and brackets. Undefined if there is none. */
function hostName(header: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(header);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}
