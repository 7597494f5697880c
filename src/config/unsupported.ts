/**
 * Settings that this release does not support yet. They are refused instead of ignored, because two replicas without a
 * shared counter would each grant the whole budget.
 */
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import { keyPositionOf, type LocatedMap } from "./located.ts";

/** The members of the validated file that only this file reads. */
export interface UnsupportedShape {
  readonly store: { readonly redis?: string; readonly postgres?: string };
}

/** Each setting with its documented environment variable. */
const shared = [
  { member: "redis", variable: "REDIS_URL" },
  { member: "postgres", variable: "DATABASE_URL" },
] as const;

/**
 * Returns a fault for each setting that is written in the file, or whose variable is set although the file does not use
 * it. An empty variable counts as not set. `found`: the faults of the shape; a position with one gets no second fault.
 */
export function unsupportedFaults(
  { store }: UnsupportedShape,
  root: LocatedMap,
  env: Environment,
  found: readonly Fault[],
): Fault[] {
  const top = { ...root.at, line: 1, col: 1 };
  return shared.flatMap(({ member, variable }) => {
    const isWritten = store[member] !== undefined;
    const isSet = (env[variable] ?? "") !== "";
    const at = keyPositionOf(root, `/store/${member}`, top);
    if (!isWritten && !isSet) return [];
    if (found.some((one) => one.at?.line === at.line && one.at.col === at.col)) return [];
    const what = isWritten ? `store.${member}` : `store.${member} (${variable} is set)`;
    const remedy = isSet
      ? `Unset ${variable}, and run one replica: gateways cannot share a store.`
      : "Remove the setting, and run one replica: gateways cannot share a store.";
    return [fault("SLUICE_NOT_SUPPORTED", `this release does not support ${what}`, { at, remedy })];
  });
}
