/**
 * Settings of a shared store that this release does not support yet, or that the file does not use. They are refused
 * instead of ignored, because two replicas without a shared store would each grant the whole budget.
 */
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import { keyPositionOf, type LocatedMap } from "./located.ts";

/** The members of the validated file that only this file reads. */
export interface UnsupportedShape {
  readonly store: { readonly redis?: string; readonly postgres?: string };
}

/**
 * Returns the faults. An empty variable counts as not set. `found`: the faults of the shape; a position with one gets no
 * second fault.
 */
export function unsupportedFaults(
  { store }: UnsupportedShape,
  root: LocatedMap,
  env: Environment,
  found: readonly Fault[],
): Fault[] {
  const top = { ...root.at, line: 1, col: 1 };
  const isSet = (variable: string): boolean => (env[variable] ?? "") !== "";
  const faults: Fault[] = [];
  if (store.redis !== undefined || isSet("REDIS_URL")) {
    const what = store.redis === undefined ? "store.redis (REDIS_URL is set)" : "store.redis";
    const remedy = isSet("REDIS_URL")
      ? "Unset REDIS_URL: replicas cannot share rate limits yet."
      : "Remove the setting: replicas cannot share rate limits yet.";
    const at = keyPositionOf(root, "/store/redis", top);
    faults.push(
      fault("SLUICE_NOT_SUPPORTED", `this release does not support ${what}`, { at, remedy }),
    );
  }
  if (store.postgres === undefined && isSet("DATABASE_URL")) {
    const remedy = 'Write `store: { postgres: "${DATABASE_URL:-}" }`, or unset DATABASE_URL.';
    const at = keyPositionOf(root, "/store/postgres", top);
    faults.push(
      fault("SLUICE_KEY_MISSING", "missing store.postgres, although DATABASE_URL is set", {
        at,
        remedy,
      }),
    );
  }
  return faults.filter(
    ({ at }) => !found.some((one) => one.at?.line === at?.line && one.at?.col === at?.col),
  );
}
