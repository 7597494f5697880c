/** The steps of a spend report: days, or hours for a short range with few charges. */
import type { Spend, SpendQuery } from "sluice-gateway/services";
import { dayMs } from "./schema.ts";

export type SpendSteps = Pick<Spend, "stepMs" | "steps" | "series">;

export const hourMs = 3_600_000;
/** Maximum number of days of a range with hours. */
const maxHourlyDays = 2;
/** Maximum number of charges that are read for hours. Reading them takes about half a second. */
export const maxHourlyCharges = 500_000;

/** Returns the length of the steps of a range with few charges. */
export function stepMsOf({
  from,
  to,
  wantsHours = false,
}: Pick<SpendQuery, "from" | "to" | "wantsHours">): number {
  return wantsHours && to - from <= maxHourlyDays * dayMs ? hourMs : dayMs;
}

/** Returns a zero for each hour of the range. */
export function hoursOf({ from, to }: Pick<SpendQuery, "from" | "to">): number[] {
  return Array<number>((to - from) / hourMs).fill(0);
}
