/** Faults of the section `store`. */
import type { StoreError } from "../store/store-error.ts";
import type { Config } from "./config.ts";
import type { Environment } from "./environment.ts";
import { fault, type Fault } from "./fault.ts";
import { find, keyPositionOf, type LocatedMap } from "./located.ts";

export interface StoreShape {
  readonly store: { readonly redis?: string; readonly postgres?: string };
}

/**
 * Finds settings of the shared stores that do not fit together or that are not used. They are refused, because two
 * replicas without a shared store would each grant the whole budget. An empty variable counts as not set. A position
 * with a fault in `found` gets no second one.
 */
export function storeSettingFaults(
  { store }: StoreShape,
  root: LocatedMap,
  env: Environment,
  found: readonly Fault[],
): Fault[] {
  const at = (member: "redis" | "postgres"): Fault["at"] =>
    keyPositionOf(root, `/store/${member}`, { ...root.at, line: 1, col: 1 });
  // A value that has a fault is missing in `store`, but the file uses its variable.
  const unused = (member: "redis" | "postgres", variable: string): Fault[] => {
    // The value can also come from a file: see environment.ts.
    const given = [variable, `${variable}_FILE`].find((name) => (env[name] ?? "") !== "");
    if (given === undefined || find(root, `/store/${member}`) !== undefined) return [];
    const remedy = `Write \`store: { ${member}: "\${${variable}:-}" }\`, or unset ${given}.`;
    const message = `missing store.${member}, although ${given} is set`;
    return [fault("SLUICE_KEY_MISSING", message, { at: at(member), remedy })];
  };
  const faults = [...unused("postgres", "DATABASE_URL"), ...unused("redis", "REDIS_URL")];
  if (store.redis !== undefined && find(root, "/store/postgres") === undefined) {
    faults.push(
      fault("SLUICE_KEY_MISSING", "missing store.postgres, which store.redis requires", {
        at: at("redis"),
        remedy:
          "Set store.postgres (DATABASE_URL), or remove store.redis: a single gateway does not need it.",
      }),
    );
  }
  return faults.filter(
    (one) =>
      !found.some(({ at: known }) => known?.line === one.at?.line && known?.col === one.at?.col),
  );
}

export function storeFault({ code, message, remedy, member }: StoreError, config: Config): Fault {
  return { code, message, remedy, at: config.keyAt(`/store/${member}`) };
}
