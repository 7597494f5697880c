/** The interface of a command. `main.ts` finds the command, parses its arguments and exits with its exit code. */
import type { ParseArgsConfig } from "node:util";

/** Everything outside the process that a command may use, so that tests can run commands in process. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Prints a line to standard output, which is for results only. */
  readonly print: (line: string) => void;
  /** Prints a line to standard error, which is for everything else. */
  readonly printToStderr: (line: string) => void;
  /** Absolute path of pipeline.yaml, which may be missing; see `findConfigFile`. */
  readonly configFile: string;
  /** The `--config` and `--env-file` arguments as given, to repeat them in commands that are proposed to the user. */
  readonly commonArguments?: readonly string[];
  readonly isTerminal?: boolean;
  /** Aborts on SIGTERM and SIGINT. */
  readonly signal: AbortSignal;
  /** Whether `--json` was given: the command prints one JSON document, or one per line, instead of text. */
  readonly json: boolean;
}

/** Values of the options as `parseArgs` returns them. */
export type OptionValues = Readonly<
  Record<string, string | boolean | readonly (string | boolean)[] | undefined>
>;

export interface Command {
  /** One line for `sluice --help`. */
  readonly summary: string;
  /** The full `--help` text, starting with `usage: sluice …`, or a function that composes it. */
  readonly help: string | (() => Promise<string>);
  /** Whether the command uses the shipped pipeline.yaml if the working folder has none. */
  readonly mayUseShippedPipeline?: boolean;
  /** Names of the subcommands, for completion in shells. */
  readonly subcommands?: readonly string[];
  /** Options in addition to `--config`, `--env-file`, `--json` and `--help`, which every command has. */
  readonly options: NonNullable<ParseArgsConfig["options"]>;
  /** Resolves to the exit code: 0 for success, 1 for failure. Throws `UsageError` for 2. */
  run(
    context: CommandContext,
    values: OptionValues,
    positionals: readonly string[],
  ): Promise<0 | 1>;
}

/** A wrong command line. `main.ts` prints the message and a reference to `--help`, and exits with 2. */
export class UsageError extends Error {}
