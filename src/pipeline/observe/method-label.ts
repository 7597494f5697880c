/** The label `method` of metrics. Its values are bounded, because clients can send any method. */
import { withHead } from "../../config/paths.ts";
import { otherName } from "./call-record.ts";

const common = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

export function methodLabel(methods: readonly string[], method: string): string {
  const isNamed = method !== "*" && withHead(methods).includes(method);
  return isNamed || (methods.includes("*") && common.has(method)) ? method : otherName;
}

/**
 * Returns the route that gets requests with this label, out of routes with the same path. As in the router, a route that
 * lists a method has priority over one with `*`. Undefined if a reload has removed the route.
 */
export function routeOfLabel<Route extends { readonly methods: readonly string[] }>(
  routes: readonly Route[],
  label: string,
): Route | undefined {
  return (
    routes.find(({ methods }) => methods.includes(label)) ??
    routes.find(({ methods }) => withHead(methods).includes(label)) ??
    routes.find(({ methods }) => methods.includes("*"))
  );
}
