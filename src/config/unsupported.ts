/**
 * What pipeline.yaml has a place for but this release does not do yet. It is refused instead of passed over: two
 * replicas that believe to share a counter would each grant the whole budget.
 */
import { fault, type Fault } from "./fault.ts";
import { keyPositionOf, type LocatedMap } from "./located.ts";

/** The members of the validated file that are read here only. */
export interface UnsupportedShape {
  readonly store: { readonly redis?: string; readonly postgres?: string };
}

const oneReplica = "Remove it, and run one replica: its store is its own.";

/** A fault for each that is set; what the environment leaves empty is not. `found`: the faults of the shape. */
export function unsupportedFaults(
  shape: UnsupportedShape,
  root: LocatedMap,
  found: readonly Fault[],
): Fault[] {
  const { store } = shape;
  const faults: Fault[] = [];
  const refuse = (pointer: string, what: string, remedy?: string): void => {
    const at = keyPositionOf(root, pointer);
    // Its shape is wrong already: one fault is enough.
    if (found.some((one) => one.at?.line === at.line && one.at.col === at.col)) return;
    faults.push(fault("SLUICE_NOT_SUPPORTED", `${what} is not in this release`, { at, remedy }));
  };
  if (store.redis !== undefined) refuse("/store/redis", "store.redis", oneReplica);
  if (store.postgres !== undefined) refuse("/store/postgres", "store.postgres", oneReplica);
  return faults;
}
