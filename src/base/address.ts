import { isIPv4 } from "node:net";

/**
 * Returns the text under which limits count an address: an IPv4 address, even if it is mapped into IPv6, or the IPv6
 * network of `ipv6Prefix` bits (`2001:db8:0:7::/64`), because a subscriber commonly has a whole /64 or more (RFC 6177)
 * and could change single addresses freely. Text that is not an address is returned unchanged.
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

/** A dual-stack socket shows an IPv4 client as `::ffff:192.0.2.1` (RFC 4291 section 2.5.5.2). */
function mappedIpv4(groups: readonly number[]): string | undefined {
  const [high = 0, low = 0] = groups.slice(6);
  const mapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);
  return mapped ? [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".") : undefined;
}

/** Returns the eight 16-bit groups of an IPv6 address without its zone. Undefined if it is not an IPv6 address. */
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

/** Parses colon-separated hex groups. A dotted IPv4 address gives two groups. Anything else gives NaN. */
function parseGroups(text: string): number[] {
  if (text === "") return [];
  return text.split(":").flatMap((group) => {
    if (!isIPv4(group)) return /^[0-9a-f]{1,4}$/i.test(group) ? parseInt(group, 16) : NaN;
    const [a = 0, b = 0, c = 0, d = 0] = group.split(".").map(Number);
    return [(a << 8) | b, (c << 8) | d];
  });
}

function groupMask(bits: number): number {
  return bits >= 16 ? 0xffff : (0xffff << (16 - bits)) & 0xffff;
}
