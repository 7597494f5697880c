/**
 * The contract through which exports read settled charges, from the data folder or from PostgreSQL, and its
 * implementation on the data folder, where the position after a charge is its id.
 */
import { readUsage, type UsageRange } from "../read-usage.ts";
import { usageJson, type UsageJson } from "../usage-json.ts";

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

export function folderPages(dataDir: string): ChargePages {
  return function* pages({ limit, ...range }) {
    let charges: ExportedCharge[] = [];
    for (const row of readUsage(dataDir, range)) {
      if (charges.length === limit) {
        yield pageOf(charges, true);
        charges = [];
      }
      charges.push({ charge: usageJson(row) });
    }
    if (charges.length > 0) yield pageOf(charges, false);
  };
}

function pageOf(charges: readonly ExportedCharge[], hasMore: boolean): ChargePage {
  return { charges, hasMore, positionAfter: (count) => charges[count - 1]?.charge.id ?? "" };
}
