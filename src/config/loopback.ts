import { BlockList, isIP } from "node:net";

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addSubnet("::1", 128, "ipv6");

/**
 * Includes `localhost` and every name below it (RFC 6761 section 6.3). An IPv6 address may be in brackets, as in a URL.
 */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  if (name === "localhost" || name.endsWith(".localhost")) return true;
  const version = isIP(name);
  return version !== 0 && loopback.check(name, version === 6 ? "ipv6" : "ipv4");
}
