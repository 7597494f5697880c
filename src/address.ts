/** The identity of a client's address for limits: one IPv4 address, or the IPv6 network that one client is given. */
import { isIPv4 } from "node:net";

/**
 * The text under which an address counts: an IPv4 address as it is (also when mapped into IPv6), an IPv6 address as its
 * network of `ipv6Prefix` bits (`2001:db8:0:7::/64`: lower-case hex groups), however it was written. A subscriber
 * commonly holds a whole /64 or more (RFC 6177), so single IPv6 addresses would be free to change. What is not an
 * address counts as itself.
 */
export function addressKey(address: string, ipv6Prefix = 64): string {
  if (!address.includes(":")) return address;
  const groups = ipv6Groups(address);
  if (groups === undefined) return address;
  const ipv4 = mappedIpv4(groups);
  if (ipv4 !== undefined) return ipv4;
  const kept = groups
    .slice(0, Math.ceil(ipv6Prefix / 16))
    .map((group, index) => (group & groupMask(ipv6Prefix - index * 16)).toString(16));
  return `${kept.join(":")}${kept.length < 8 ? "::" : ""}/${ipv6Prefix}`;
}

/** `::ffff:192.0.2.1` is how a dual-stack socket shows an IPv4 client (RFC 4291 section 2.5.5.2). */
function mappedIpv4(groups: readonly number[]): string | undefined {
  const [high = 0, low = 0] = groups.slice(6);
  const mapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
  return mapped ? [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".") : undefined;
}

/** The eight 16-bit groups of an IPv6 address, its zone left out; undefined when it is none. */
function ipv6Groups(address: string): number[] | undefined {
  const zone = address.indexOf("%");
  const [head = "", tail, more] = (zone === -1 ? address : address.slice(0, zone)).split("::");
  if (more !== undefined) return undefined;
  const left = parseGroups(head);
  const right = parseGroups(tail ?? "");
  const missing = 8 - left.length - right.length;
  if (tail === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...left, ...Array<number>(missing).fill(0), ...right];
  return groups.some((group) => Number.isNaN(group)) ? undefined : groups;
}

/** Groups of colon-separated hex, the last perhaps a dotted IPv4 address; NaN for what is neither. */
function parseGroups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (!isIPv4(group)) return /^[0-9a-f]{1,4}$/i.test(group) ? parseInt(group, 16) : NaN;
    const [a = 0, b = 0, c = 0, d = 0] = group.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}

/** The mask of a group that the network shares `bits` bits of: 16 and more all, 0 none. */
function groupMask(bits: number): number {
  return bits >= 16 ? 0xffff : (0xffff << (16 - bits)) & 0xffff;
}
