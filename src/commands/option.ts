/** Reads the values of options; what is wrong with one is a UsageError that names it. */
import { isAddressBlock } from "../address-list.ts";
import { parseDuration, UsageError, type OptionValues } from "./command.ts";
import { unknown } from "./subcommand.ts";

/** Beyond a century a duration is a mistake, and some way beyond it no date can hold it. */
const longestMs = 36_525 * 86_400_000;
const longestName = 200;

export function text(values: OptionValues, option: string): string | undefined {
  const value = values[option];
  return typeof value === "string" ? value : undefined;
}

export function required(values: OptionValues, option: string): string {
  const value = text(values, option);
  if (value === undefined) throw new UsageError(`--${option} is missing`);
  return value;
}

/** All values of an option that may be given several times; undefined: never given. */
export function texts(values: OptionValues, option: string): string[] | undefined {
  const value = values[option];
  if (!Array.isArray(value)) return undefined;
  return value.filter((each) => typeof each === "string");
}

/** A name for people: 1 to 200 characters, none of them a control character (it will be printed on terminals). */
export function checkName(name: string, option: string): string {
  if (name === "" || name.length > longestName || /\p{Cc}/u.test(name)) {
    throw new UsageError(`--${option}: a name has 1 to ${longestName} printable characters`);
  }
  return name;
}

export function checkWord<T extends string>(
  word: string,
  allowed: readonly T[],
  option: string,
): T {
  const found = allowed.find((each) => each === word);
  if (found === undefined) throw new UsageError(`--${option}: ${unknown(word, allowed)}`);
  return found;
}

/** An amount in milli-CU: an integer from 0 to 2^53 - 1. */
export function milliCu(values: OptionValues, option: string): number | undefined {
  const given = text(values, option);
  if (given === undefined) return undefined;
  const amount = /^\d{1,16}$/.test(given) ? Number(given) : NaN;
  if (!Number.isSafeInteger(amount)) {
    throw new UsageError(`--${option}: "${given}" is not a whole number of milli-CU, 0 or more`);
  }
  return amount;
}

/** Requests per second: above 0, at most a million, up to three decimals. */
export function rate(values: OptionValues, option: string): number | undefined {
  const given = text(values, option);
  if (given === undefined) return undefined;
  const rps = /^\d{1,7}(\.\d{1,3})?$/.test(given) ? Number(given) : NaN;
  if (!(rps > 0 && rps <= 1_000_000)) {
    throw new UsageError(`--${option}: "${given}" is not a number of requests per second above 0`);
  }
  return rps;
}

/** Addresses and CIDR blocks, each once; undefined: none was given. */
export function addresses(values: OptionValues, option: string): string[] | undefined {
  const given = texts(values, option);
  for (const each of given ?? []) {
    if (isAddressBlock(each)) continue;
    throw new UsageError(
      `--${option}: "${each}" is not an IP address or a block such as 10.0.0.0/8 or fd00::/8`,
    );
  }
  return given && [...new Set(given)];
}

/** Milliseconds, up to a century. */
export function duration(values: OptionValues, option: string): number | undefined {
  const given = text(values, option);
  if (given === undefined) return undefined;
  const ms = parseDuration(given, option);
  if (ms > longestMs) throw new UsageError(`--${option}: "${given}" is more than 100 years`);
  return ms;
}

/** Null where the option is the one word `none`: what it sets is taken away. Else what `read` makes of it. */
export function orNone<T>(
  values: OptionValues,
  option: string,
  read: (values: OptionValues, option: string) => T | undefined,
): T | null | undefined {
  const given = texts(values, option) ?? [text(values, option)];
  return given.length === 1 && given[0] === "none" ? null : read(values, option);
}
