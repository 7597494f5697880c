/** Parses the query of a request. Only known names are allowed, each at most once. */
import { parseTime } from "sluice-gateway/services";

/** The value of a parameter, or the rest of the message "must be …". */
export type QueryValue<T> = { readonly value: T } | { readonly mustBe: string };

type Readers = Readonly<Record<string, (text: string) => QueryValue<unknown>>>;
type Values<R extends Readers> = {
  readonly [N in keyof R]?: R[N] extends (text: string) => QueryValue<infer T> ? T : never;
};

export function queryOf<R extends Readers>(
  query: string,
  readers: R,
): { readonly values: Values<R> } | { readonly wrong: string } {
  const values: Record<string, unknown> = {};
  for (const [name, text] of new URLSearchParams(query)) {
    const reader = Object.hasOwn(readers, name) ? readers[name] : undefined;
    if (reader === undefined) {
      return { wrong: `unknown parameter; expected one of ${Object.keys(readers).join(", ")}` };
    }
    if (Object.hasOwn(values, name)) return { wrong: `${name} is given more than once` };
    const read = reader(text);
    if ("mustBe" in read) return { wrong: `${name} must be ${read.mustBe}` };
    values[name] = read.value;
  }
  // Each value comes from the reader of its name.
  return { values: values as Values<R> };
}

/** Parses a time to milliseconds since 1970. */
export function instant(text: string): QueryValue<number> {
  const value = parseTime(text);
  const mustBe = "a time such as 2026-01-31T12:00:00Z or 2026-01-31";
  return value === undefined ? { mustBe } : { value };
}

export function wholeNumber(text: string, least: number, most: number): QueryValue<number> {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  const fits = value >= least && value <= most;
  return fits ? { value } : { mustBe: `a whole number from ${least} to ${most}` };
}

/** Parses a comma-separated list of `allowed` words, each at most once. An empty text is an empty list. */
export function words<T extends string>(
  text: string,
  allowed: readonly T[],
): QueryValue<readonly T[]> {
  const given = text === "" ? [] : text.split(",");
  const value = allowed.filter((word) => given.includes(word));
  if (value.length === given.length) return { value };
  return { mustBe: `a comma-separated list of ${allowed.join(", ")}, each once` };
}
