/** The contract through which exports read settled charges, from the data folder or from PostgreSQL. */
import type { UsageRange } from "../read-usage.ts";
import type { UsageJson } from "../usage-json.ts";

export interface ExportedCharge {
  readonly charge: UsageJson;
}

export interface ChargePage {
  readonly charges: readonly ExportedCharge[];
  /** Returns the position after the first `count` of these charges. A later read can continue there. */
  readonly positionAfter: (count: number) => string;
  /** True if there may be more charges after these. */
  readonly hasMore: boolean;
}

export interface PageRange extends UsageRange {
  /** A position. Only charges after it are read. */
  readonly after?: string | undefined;
  /** Number of charges in a page. A page may have a few more. */
  readonly limit: number;
}

/**
 * Yields the charges in a range that are settled at the call, in the order of their commits per gateway. Fails with
 * StoreError or DatabaseFailure if they cannot be read, and if the position is invalid.
 */
export type ChargePages = (range: PageRange) => Iterable<ChargePage> | AsyncIterable<ChargePage>;
