/** The interface of a command. `main.ts` finds the command, parses its arguments and exits with its exit code. */
import type { ParseArgsConfig } from "node:util";

/** Everything outside the process that a command may use, so that tests can run commands in process. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For results only. */
  readonly print: (line: string) => void;
  /** For everything else. */
  readonly printToStderr: (line: string) => void;
  /** Absolute path of pipeline.yaml, which may be missing; see `findConfigFile`. */
  readonly configFile: string;
  /** As given, to repeat them in commands that are proposed to the user. */
  readonly commonArguments?: readonly string[];
  readonly isTerminal?: boolean;
  readonly signal: AbortSignal;
  /** The command prints one JSON document, or one per line, instead of text. */
  readonly json: boolean;
}

export type OptionValues = Readonly<
  Record<string, string | boolean | readonly (string | boolean)[] | undefined>
>;

export interface Command {
  readonly summary: string;
  /** Starts with `usage: sluice …`. */
  readonly help: string | (() => Promise<string>);
  /** Whether the command uses the shipped pipeline.yaml if the working folder has none. */
  readonly mayUseShippedPipeline?: boolean;
  readonly subcommands?: readonly string[];
  /** In addition to `--config`, `--env-file`, `--json` and `--help`, which every command has. */
  readonly options: NonNullable<ParseArgsConfig["options"]>;
  /** Resolves to the exit code: 0 for success, 1 for failure. Throws `UsageError` for 2. */
  run(
    context: CommandContext,
    values: OptionValues,
    positionals: readonly string[],
  ): Promise<0 | 1>;
}

/** `main.ts` prints the message and a reference to `--help`, and exits with 2. */
export class UsageError extends Error {}
