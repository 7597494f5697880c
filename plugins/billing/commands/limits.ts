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

export function milliCu(values: OptionValues, option: string): number | undefined {
  const given = optionText(values, option);
  if (given === undefined) return undefined;
  const amount = /^\d{1,16}$/.test(given) ? Number(given) : NaN;
  if (!Number.isSafeInteger(amount)) {
    throw new UsageError(
      `--${option}: expected milli-CU as a whole number, 0 or more, got "${given}"`,
    );
  }
  return amount;
}

export function rate(values: OptionValues, option: string): number | undefined {
  const given = optionText(values, option);
  if (given === undefined) return undefined;
  const rps = /^\d{1,7}(\.\d{1,3})?$/.test(given) ? Number(given) : NaN;
  if (!(rps > 0 && rps <= 1_000_000)) {
    throw new UsageError(
      `--${option}: expected requests per second above 0, at most 1000000, got "${given}"`,
    );
  }
  return rps;
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
  const given = optionText(values, option);
  if (given === undefined) return undefined;
  const ms = /^\d{1,9}[smhd]$/.test(given) ? durationMs(given) : undefined;
  if (ms === undefined) {
    throw new UsageError(
      `--${option}: expected a duration such as 45s, 15m, 12h or 30d, got "${given}"`,
    );
  }
  if (ms > maxDurationMs)
    throw new UsageError(`--${option}: expected at most 100 years, got "${given}"`);
  return ms;
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
