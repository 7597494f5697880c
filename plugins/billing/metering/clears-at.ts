/** When a limit of credit has room again, for whoever explains a refusal. */
import type { ApiKey } from "../../../src/plugin.ts";
import type { MeterService } from "./meter.ts";
import { periodOf } from "./periods.ts";

/**
 * Milliseconds since 1970; undefined: nothing will ever leave. The plan clears with the billing period that follows on
 * `refusedAt`; a window that is full when it has room for the smallest charge, one that had no room for a larger one
 * when its oldest charges leave.
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
