/** Commands whose first positional says what to do (`keys create`): each with its own options and arguments. */
import { nearest } from "../config/nearest.ts";
import { UsageError, type CommandContext, type OptionValues } from "./command.ts";

export interface Subcommand {
  /** Options of the command that are valid for this subcommand. */
  readonly options: readonly string[];
  /** Names of the arguments that must follow, for messages. */
  readonly arguments: readonly string[];
  run(context: CommandContext, values: OptionValues, ...args: string[]): Promise<0 | 1>;
}

const everywhere: readonly string[] = ["config", "env-file", "json", "help"];

/** Runs the one of `subcommands` that the command line names. Throws UsageError for anything left over or missing. */
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
    throw new UsageError(`${command}: missing subcommand, expected one of ${names.join(", ")}`);
  }
  const chosen = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined;
  if (chosen === undefined) throw new UsageError(`${command}: ${unknown(name, names)}`);

  for (const [option, value] of Object.entries(values)) {
    const fits = chosen.options.includes(option) || everywhere.includes(option);
    if (value !== undefined && !fits) {
      throw new UsageError(`--${option} is not valid for ${command} ${name}`);
    }
  }
  const missing = chosen.arguments[args.length];
  if (missing !== undefined) throw new UsageError(`${command} ${name}: ${missing} is missing`);
  const extra = args[chosen.arguments.length];
  if (extra !== undefined)
    throw new UsageError(`${command} ${name}: unexpected argument "${extra}"`);
  return chosen.run(context, values, ...args);
}

/** `"fre" is unknown; did you mean "free"? (free, developer …)`. */
export function unknown(given: string, allowed: readonly string[]): string {
  const close = nearest(given, allowed);
  const hint = close === undefined ? "" : `; did you mean "${close}"?`;
  return `"${given}" is unknown${hint} (${allowed.join(", ")})`;
}
