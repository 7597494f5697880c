/** An invalid value throws a UsageError that names the option. */
import { isAddressBlock } from "sluice-gateway/internal/http";
import {
  optionText,
  optionTexts,
  UsageError,
  type OptionValues,
} from "sluice-gateway/internal/module";
import { durationMs } from "sluice-gateway/internal/toolkit";

/** Maximum duration: a century. Anything longer is a mistake, and a Date could not represent much more. */
const maxDurationMs = 36_525 * 86_400_000;

/**
 * Reads the value of an option. Undefined if it is not given. `expected`: noun phrase for the error. `read`: returns
 * undefined for a wrong value.
 */
export function optionOf<T>(
  values: OptionValues,
  option: string,
  expected: string,
  read: (given: string) => T | undefined,
): T | undefined {
  const given = optionText(values, option);
  if (given === undefined) return undefined;
  const value = read(given);
  if (value !== undefined) return value;
  throw new UsageError(`--${option}: expected ${expected}, got "${given}"`);
}

export function milliCu(values: OptionValues, option: string): number | undefined {
  return optionOf(values, option, "milli-CU as a whole number, 0 or more", (given) => {
    const amount = /^\d{1,16}$/.test(given) ? Number(given) : NaN;
    return Number.isSafeInteger(amount) ? amount : undefined;
  });
}

export function rate(values: OptionValues, option: string): number | undefined {
  return optionOf(values, option, "requests per second above 0, at most 1000000", (given) => {
    const rps = /^\d{1,7}(\.\d{1,3})?$/.test(given) ? Number(given) : NaN;
    return rps > 0 && rps <= 1_000_000 ? rps : undefined;
  });
}

export function addresses(values: OptionValues, option: string): string[] | undefined {
  const given = optionTexts(values, option);
  for (const each of given ?? []) {
    if (isAddressBlock(each)) continue;
    throw new UsageError(
      `--${option}: expected an IP address or a block such as 10.0.0.0/8 or fd00::/8, got "${each}"`,
    );
  }
  return given && [...new Set(given)];
}

/** Parses a duration of up to a century to milliseconds. */
export function duration(values: OptionValues, option: string): number | undefined {
  const ms = optionOf(values, option, "a duration such as 45s, 15m, 12h or 30d", (given) =>
    /^\d{1,9}[smhd]$/.test(given) ? durationMs(given) : undefined,
  );
  if (ms === undefined || ms <= maxDurationMs) return ms;
  const given = optionText(values, option);
  throw new UsageError(`--${option}: expected at most 100 years, got "${given}"`);
}

/** Returns null, which removes the setting, if the only value of the option is `none`; else the result of `read`. */
export function orNone<T>(
  values: OptionValues,
  option: string,
  read: (values: OptionValues, option: string) => T | undefined,
): T | null | undefined {
  const given = optionTexts(values, option) ?? [optionText(values, option)];
  return given.length === 1 && given[0] === "none" ? null : read(values, option);
}
