import type { ParseArgsConfig } from "node:util";

/** Everything outside the process that a command may use, so that tests can run commands in process. */
export interface CommandContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Standard output is for results only. */
  readonly print: (line: string) => void;
  /** Standard error is for everything else. */
  readonly printToStderr: (line: string) => void;
  /** Absolute path of pipeline.yaml, which may be missing; see `findConfigFile`. */
  readonly configFile: string;
  /** The arguments are repeated in commands that are proposed to the user. */
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
  readonly help: string | (() => Promise<string>);
  /** Whether the command uses the shipped pipeline.yaml if the working folder has none. */
  readonly mayUseShippedPipeline?: boolean;
  readonly subcommands?: readonly string[];
  /** Every command also has `--config`, `--env-file`, `--json` and `--help`. */
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

/** For commands without positional arguments. Throws UsageError if there is one. */
export function refusePositionals(positionals: readonly string[]): void {
  if (positionals.length === 0) return;
  throw new UsageError(`unexpected argument "${positionals.join(" ")}"`);
}
