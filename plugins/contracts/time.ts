/** RFC 3339 section 5.6, or a date, which means the start of that day in UTC. */
const rfc3339 =
  /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d))?$/;

/** Returns a time (`2026-01-31T12:00:00Z`) or a day (`2026-01-31`) in milliseconds since 1970, else undefined. */
export function parseTime(text: string): number | undefined {
  const time = rfc3339.test(text) ? Date.parse(text.toUpperCase()) : NaN;
  if (Number.isNaN(time)) return undefined;
  // Date.parse accepts the 31st of a shorter month and returns a day of the next month.
  const date = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return date.toISOString().slice(0, 10) === text.slice(0, 10) ? time : undefined;
}
