/**
 * Settings that this release does not support yet. They are refused instead of ignored: two replicas that believe they
 * share a counter would each grant the whole budget.
 */
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import { keyPositionOf, type LocatedMap } from "./located.ts";

/** The members of the validated file that are read here only. */
export interface UnsupportedShape {
  readonly store: { readonly redis?: string; readonly postgres?: string };
}

/** Each setting with the environment variable that is documented for it. */
const shared = [
  { member: "redis", variable: "REDIS_URL" },
  { member: "postgres", variable: "DATABASE_URL" },
] as const;

/**
 * A fault for each setting that is written in the file, or whose variable is set although the file does not read it.
 * An empty variable is not set. `found`: the faults of the shape, of which one per place is enough.
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
      ? `Unset ${variable}, and run one replica: every gateway keeps a store of its own.`
      : "Remove it, and run one replica: every gateway keeps a store of its own.";
    return [fault("SLUICE_NOT_SUPPORTED", `this release does not support ${what}`, { at, remedy })];
  });
}
