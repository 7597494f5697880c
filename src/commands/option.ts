/** An invalid value throws a UsageError that names the option. */
import { UsageError, type OptionValues } from "./command.ts";
import { unknownValueMessage } from "./subcommand.ts";

const maxNameLength = 200;

export function optionText(values: OptionValues, option: string): string | undefined {
  const value = values[option];
  return typeof value === "string" ? value : undefined;
}

export function requiredOption(values: OptionValues, option: string): string {
  const value = optionText(values, option);
  if (value === undefined) throw new UsageError(`missing option --${option}`);
  return value;
}

/** Values of an option that may be given several times. Undefined if it was not given. */
export function optionTexts(values: OptionValues, option: string): string[] | undefined {
  const value = values[option];
  if (!Array.isArray(value)) return undefined;
  return value.filter((each) => typeof each === "string");
}

/** Control characters are refused, because names are printed on terminals. */
export function checkName(name: string, option: string): string {
  if (name === "" || name.length > maxNameLength || /\p{Cc}/u.test(name)) {
    throw new UsageError(
      `--${option}: expected a name of 1 to ${maxNameLength} printable characters`,
    );
  }
  return name;
}

export function checkWord<T extends string>(
  word: string,
  allowed: readonly T[],
  option: string,
): T {
  const found = allowed.find((each) => each === word);
  if (found === undefined)
    throw new UsageError(`--${option}: ${unknownValueMessage(word, allowed)}`);
  return found;
}
