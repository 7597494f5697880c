import { isIP } from "node:net";
import { addressList } from "../base/address-list.ts";
import type { RequestHead } from "../contract/heads.ts";
import type { ClientRequest } from "./request-head.ts";

/**
 * Returns a function from a request to its client's address. `X-Forwarded-For` is read from the right, and only while
 * every hop is in `trusted` (addresses or CIDR blocks). Entries further left may be written by the client itself.
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

/** The peer of the socket, whether it is in `trusted`, and whether it uses TLS. */
export function peerReader(trusted: readonly string[]): (request: ClientRequest) => {
  readonly address: string;
  readonly trusted: boolean;
  readonly encrypted: boolean;
} {
  const isTrusted = addressList(trusted);
  return (request) => {
    const address = socketAddress(request);
    const encrypted = request.socket.encrypted === true;
    return { address, trusted: trusted.length > 0 && isTrusted(address), encrypted };
  };
}

function socketAddress(request: ClientRequest): string {
  return plain(request.socket.remoteAddress ?? "unknown");
}

/** Removes the prefix of an IPv4 client on a dual-stack socket, `::ffff:a.b.c.d`. */
function plain(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice(7) : address;
}

export function clientScheme({ peer, headers }: Pick<RequestHead, "peer" | "headers">): string {
  const reported = peer.trusted ? headers["x-forwarded-proto"] : undefined;
  if (reported !== undefined) return reported === "https" ? "https" : "http";
  return peer.encrypted === true ? "https" : "http";
}
