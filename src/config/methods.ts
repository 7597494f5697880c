import { METHODS } from "node:http";
import { fault, type Fault } from "./fault.ts";
import type { Located } from "./located.ts";
import { nearest } from "./nearest.ts";

/** A gateway does not route CONNECT and TRACE. */
const routable = METHODS.filter((method) => method !== "CONNECT" && method !== "TRACE");

export function methodFaults(node: Located | undefined, any: readonly string[] = []): Fault[] {
  if (node?.kind !== "list") return [];
  const allowed = new Set([...routable, ...any]);
  return node.items.flatMap((item) => {
    if (item.kind !== "scalar" || typeof item.value !== "string" || item.broken) return [];
    if (allowed.has(item.value)) return [];
    const upper = item.value.toUpperCase();
    const didYouMean = allowed.has(upper) ? upper : nearest(item.value, allowed);
    return [
      fault("SLUICE_ROUTE_METHOD", `unknown method "${item.value}"`, {
        at: item.at,
        didYouMean,
      }),
    ];
  });
}
