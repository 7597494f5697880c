/** Computes when a credit limit has room again, for `sluice explain`. */
import type { ApiKey } from "../../../src/plugin.ts";
import type { MeterService } from "./meter.ts";
import { periodOf } from "./periods.ts";

/**
 * Returns milliseconds since 1970, or undefined if nothing will ever leave the limit. The plan clears at the start of
 * the billing period after `refusedAt`. A full window clears when it has room for the smallest charge. A window that
 * lacked room only for a larger charge clears when its oldest charges leave.
 */
export function creditClearsAt(
  meter: Pick<MeterService, "keyWindows">,
): (key: ApiKey, reached: { readonly scope: string }, refusedAt: number) => number | undefined {
  return (key, { scope }, refusedAt) => {
    if (scope === "plan") return periodOf(refusedAt).end;
    if (scope !== "24h" && scope !== "30d") return undefined;
    const { day, month } = meter.keyWindows(key);
    const window = scope === "24h" ? day : month;
    return window.roomAt ?? window.freesAt;
  };
}
