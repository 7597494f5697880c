/** Reads the charges of the data folder in pages. The position after a charge is its id. */
import { readUsage, type UsageRow } from "../read-usage.ts";
import { usageJson } from "../usage-json.ts";
import type { ChargePage, ChargePages, ExportedCharge } from "./pages.ts";

export function folderPages(dataDir: string): ChargePages {
  return function* pages({ limit, ...range }) {
    let charges: ExportedCharge[] = [];
    for (const row of readUsage(dataDir, range)) {
      if (charges.length === limit) {
        yield pageOf(charges, true);
        charges = [];
      }
      charges.push(exported(row));
    }
    if (charges.length > 0) yield pageOf(charges, false);
  };
}

function pageOf(charges: readonly ExportedCharge[], hasMore: boolean): ChargePage {
  return { charges, hasMore, positionAfter: (count) => charges[count - 1]?.charge.id ?? "" };
}

function exported(row: UsageRow): ExportedCharge {
  return { charge: usageJson(row) };
}
