/** What a command of the command line is. `main.ts` finds it, reads argv for it and exits with what it returns. */
import type { ParseArgsConfig } from "node:util";

/** Everything a command may touch of the outside world, so that tests can run it in process. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Prints a line to standard output: results only. */
  readonly print: (line: string) => void;
  /** Prints a line to standard error: everything else. */
  readonly complain: (line: string) => void;
  /** Absolute path of pipeline.yaml, which may be missing; see `findConfigFile`. */
  readonly configFile: string;
  /** `--config` and `--env-file` as they were given, for commands that are proposed to the user. */
  readonly commonArguments?: readonly string[];
  /** Whether standard error is a terminal, that is, somebody reads along. */
  readonly isTerminal?: boolean;
  /** Aborts on SIGTERM and SIGINT. */
  readonly signal: AbortSignal;
  /** `--json` was given: print one JSON document (or one a line) instead of prose. */
  readonly json: boolean;
}

/** Values of the options as `parseArgs` gives them. */
export type OptionValues = Readonly<
  Record<string, string | boolean | readonly (string | boolean)[] | undefined>
>;

export interface Command {
  /** One line for `sluice --help`. */
  readonly summary: string;
  /** The full `--help` text, starting with `usage: sluice …`. */
  readonly help: string;
  /** Falls back on the shipped pipeline.yaml where there is none in the working folder. */
  readonly mayUseShippedPipeline?: boolean;
  /** In addition to `--config`, `--env-file`, `--json` and `--help`, which every command has. */
  readonly options: NonNullable<ParseArgsConfig["options"]>;
  /** Resolves to the exit code: 0 done, 1 failed. Throws `UsageError` for 2. */
  run(
    context: CommandContext,
    values: OptionValues,
    positionals: readonly string[],
  ): Promise<0 | 1>;
}

/** The command line was wrong: exit 2, the message, and a hint at `--help`. */
export class UsageError extends Error {}

const unitMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Reads `45s`, `15m`, `12h`, `30d` as milliseconds; throws UsageError naming the option. */
export function parseDuration(text: string, option: string): number {
  const match = /^(\d{1,9})([smhd])$/.exec(text);
  const unit = unitMs[match?.[2] ?? ""];
  if (match === null || unit === undefined) {
    throw new UsageError(`--${option}: "${text}" is not a duration such as 45s, 15m, 12h or 30d`);
  }
  return Number(match[1]) * unit;
}
