/** Commands whose first positional says what to do (`keys create`): each with its own options and arguments. */
import { nearest } from "../config/nearest.ts";
import { UsageError, type CommandContext, type OptionValues } from "./command.ts";

export interface Subcommand {
  /** Options of the command that mean something here. */
  readonly options: readonly string[];
  /** Names of the positionals that must follow, for messages. */
  readonly arguments: readonly string[];
  run(context: CommandContext, values: OptionValues, ...args: string[]): Promise<0 | 1>;
}

const everywhere: readonly string[] = ["config", "json", "help"];

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
  if (name === undefined) throw new UsageError(`${command}: say which: ${names.join(", ")}`);
  const chosen = Object.hasOwn(subcommands, name) ? subcommands[name] : undefined;
  if (chosen === undefined) throw new UsageError(`${command}: ${unknown(name, names)}`);

  for (const [option, value] of Object.entries(values)) {
    const fits = chosen.options.includes(option) || everywhere.includes(option);
    if (value !== undefined && !fits) {
      throw new UsageError(`${command} ${name}: --${option} means nothing here`);
    }
  }
  const missing = chosen.arguments[args.length];
  if (missing !== undefined) throw new UsageError(`${command} ${name}: ${missing} is missing`);
  const extra = args[chosen.arguments.length];
  if (extra !== undefined)
    throw new UsageError(`${command} ${name}: "${extra}" is one argument too many`);
  return chosen.run(context, values, ...args);
}

/** `"fre" is unknown; did you mean "free"? (free, developer …)`. */
export function unknown(given: string, allowed: readonly string[]): string {
  const close = nearest(given, allowed);
  const hint = close === undefined ? "" : `; did you mean "${close}"?`;
  return `"${given}" is unknown${hint} (${allowed.join(", ")})`;
}
