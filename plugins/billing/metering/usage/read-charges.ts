/** The contract through which reports read charges and their sums, from the data folder or from PostgreSQL. */
import type { Row } from "sluice-gateway/internal/store";
import type { Drawn } from "../../leases/months.ts";

/** The charges that a statement needs. */
export interface ChargeBounds {
  readonly workspaceId: string;
  /** Milliseconds since 1970. `from` is inclusive, and `to` is exclusive. */
  readonly from: number;
  readonly to: number;
}

/**
 * Runs one statement: see `RunSql`. It may read two tables.
 *
 * `sluice.hours` has the sums of all settled charges by `hour` (hours since 1970), `workspace_id`, `key_id`, `surface`,
 * `method`, `model`, `route` and `tag`; a missing model, route or tag is an empty text. The sums are `calls`, `used`
 * (milli-CU), and the four counts of tokens. Several rows may have the same names.
 *
 * `sluice.charges` has the charges themselves, with the columns of the table in PostgreSQL. `bounds`: those that the
 * statement selects. The data folder has only these, because it must decode them. Conditions on `time` compare it with
 * `to_timestamp`.
 */
export type ReadCharges = (
  text: string,
  values: readonly unknown[],
  bounds?: ChargeBounds,
) => Promise<readonly Row[]>;

/**
 * Returns what of each month is included, purchased and overage, by workspace and by the start of the month. All
 * workspaces if `workspaceId` is undefined.
 */
export type ReadMonths = (
  workspaceId: string | undefined,
) => Promise<ReadonlyMap<string, ReadonlyMap<number, Drawn>>>;
