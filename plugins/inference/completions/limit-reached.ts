import type { Refused } from "sluice-gateway/plugin";

/** Returns the time at which the limit leaves room again, in milliseconds since 1970. Undefined if it is not known. */
export function clearsAtOf({ reached }: Refused): number | undefined {
  const { clearsAt } = reached ?? {};
  return typeof clearsAt === "function" ? clearsAt() : clearsAt;
}
