/** The client's address: the socket's, or what trusted proxies say of it. */
import { isIP } from "node:net";
import { addressList } from "../address-list.ts";
import type { ClientRequest } from "../pipeline/run/arrival.ts";

/**
 * Returns a function from a request to its client's address. `X-Forwarded-For` is read from the right, and only as far
 * as every hop is in `trusted` (addresses or CIDR blocks): what a client itself wrote further left proves nothing.
 */
export function addressReader(trusted: readonly string[]): (request: ClientRequest) => string {
  if (trusted.length === 0) return socketAddress;
  const isTrusted = addressList(trusted);
  return (request) => {
    const peer = socketAddress(request);
    const header = request.headers["x-forwarded-for"];
    if (header === undefined || !isTrusted(peer)) return peer;
    const hops = (Array.isArray(header) ? header.join(",") : header).split(",");
    let client = peer;
    for (const hop of hops.toReversed()) {
      const address = plain(hop.trim());
      if (isIP(address) === 0) break;
      client = address;
      if (!isTrusted(address)) break;
    }
    return client;
  };
}

/** Returns a function from a request to its socket's other end, and whether that is one of `trusted`. */
export function peerReader(
  trusted: readonly string[],
): (request: ClientRequest) => { readonly address: string; readonly trusted: boolean } {
  const isTrusted = addressList(trusted);
  return (request) => {
    const address = socketAddress(request);
    return { address, trusted: trusted.length > 0 && isTrusted(address) };
  };
}

function socketAddress(request: ClientRequest): string {
  return plain(request.socket.remoteAddress ?? "unknown");
}

/** An IPv4 client of a dual-stack socket appears as `::ffff:a.b.c.d`. */
function plain(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}
