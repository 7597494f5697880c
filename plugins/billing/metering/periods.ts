/** Billing periods: calendar months, UTC (decisions.md section 3). */

export interface Period {
  /** Milliseconds since 1970. */
  readonly start: number;
  /** Start of the next period. */
  readonly end: number;
}

/** Returns the calendar month (UTC) of `time`, which is in milliseconds since 1970. */
export function periodOf(time: number): Period {
  const date = new Date(time);
  const year = date.getUTCFullYear();
  const month = date.getUTCMonth();
  return { start: Date.UTC(year, month), end: Date.UTC(year, month + 1) };
}
