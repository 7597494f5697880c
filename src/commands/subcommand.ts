import { nearest } from "../config/nearest.ts";
import { UsageError, type CommandContext, type OptionValues } from "./command.ts";

export interface Subcommand {
  /** Options of the command that this subcommand accepts. */
  readonly options: readonly string[];
  /** Names of the required arguments, for messages. */
  readonly arguments: readonly string[];
  readonly optional?: readonly string[];
  run(context: CommandContext, values: OptionValues, ...args: string[]): Promise<0 | 1>;
}

const everywhere: readonly string[] = ["config", "env-file", "json", "help"];

/** Throws UsageError for a missing or unexpected argument. */
export function runSubcommand(
  command: string,
  subcommands: Readonly<Record<string, Subcommand>>,
  context: CommandContext,
  values: OptionValues,
  positionals: readonly string[],
): Promise<0 | 1> {
  const [name, ...args] = positionals;
  const names = Object.keys(subcommands);
  if (name === undefined) {
    throw new UsageError(`missing subcommand, expected one of ${names.join(", ")}`);
  }
  const chosen = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined;
  if (chosen === undefined) throw new UsageError(unknownValueMessage(name, names, "subcommand"));

  for (const [option, value] of Object.entries(values)) {
    const fits = chosen.options.includes(option) || everywhere.includes(option);
    if (value !== undefined && !fits) {
      throw new UsageError(`--${option} is not valid for ${command} ${name}`);
    }
  }
  const missing = chosen.arguments[args.length];
  if (missing !== undefined)
    throw new UsageError(`missing argument ${missing} for ${command} ${name}`);
  const extra = args[chosen.arguments.length + (chosen.optional ?? []).length];
  if (extra !== undefined)
    throw new UsageError(`unexpected argument "${extra}" for ${command} ${name}`);
  return chosen.run(context, values, ...args);
}

/** Returns `unknown value "fre"; did you mean "free"? (expected one of free, developer …)`. */
export function unknownValueMessage(
  given: string,
  allowed: readonly string[],
  what = "value",
): string {
  const close = nearest(given, allowed);
  const hint = close === undefined ? "" : `; did you mean "${close}"?`;
  return `unknown ${what} "${given}"${hint} (expected one of ${allowed.join(", ")})`;
}
