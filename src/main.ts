#!/usr/bin/env node
import { parseArgs } from "node:util";
import { allCommands, commonOptions, findCommand } from "./commands/all.ts";
import { UsageError, type Command, type OptionValues } from "./commands/command.ts";
import { useCompileCache } from "./commands/compile-cache.ts";
import { findConfigFile } from "./commands/config-file.ts";
import { becomeServerProcess } from "./commands/server-process.ts";
import { nearest } from "./config/nearest.ts";
import { keepCompiledCode } from "./kept-files.ts";
import { errorCode } from "./base/error-code.ts";

/** Checked before the commands are imported, because an older Node fails on their syntax and imports. */
const minNodeVersion = 24;

/** Time for output and for the last retry of a trace export, after a command that was stopped by a signal returns. */
const exitGraceMs = 1_000;

let hasReturned = false;
let isOutputLost = false;
void main(process.argv.slice(2)).then((exitCode) => {
  hasReturned = true;
  process.exitCode = isOutputLost ? 1 : exitCode;
});

// The code of a plugin runs in this process. Without this, a check that a plugin ends would count as passed.
process.once("exit", (exitCode) => {
  if (hasReturned || exitCode !== 0) return;
  process.exitCode = 1;
  console.error(
    "sluice: the process ended before the command, for example because a plugin called process.exit()",
  );
});

async function main(argv: readonly string[]): Promise<0 | 1 | 2> {
  const { node } = process.versions;
  if (Number.parseInt(node, 10) < minNodeVersion) {
    console.error(
      `sluice requires Node ${minNodeVersion} or later; this is Node ${node}. Install a newer one: npm install node, or https://nodejs.org`,
    );
    return 1;
  }
  const [name, ...rest] = withoutAliases(argv);
  process.stdout.on("error", ({ code }: NodeJS.ErrnoException) => {
    // The reader of the output may close the pipe early (`sluice check | head`).
    if (code === "EPIPE" || isOutputLost) return;
    // The command continues, because it may have to clean up.
    isOutputLost = true;
    process.exitCode = 1;
    console.error(`sluice: cannot write to standard output (${code})`);
  });
  // Nothing can be reported there any more, and a server continues.
  process.stderr.on("error", () => {});
  // Makes the next start about 100 ms faster, for 2 MiB of memory.
  useCompileCache();
  if (name === undefined || name === "--help" || name === "-h") {
    (name === undefined ? console.error : console.log)(await overview());
    return name === undefined ? 2 : 0;
  }
  const command = await findCommand(name, rest);
  if (command === undefined) {
    const close = nearest(name, Object.keys(await allCommands()));
    const hint = close === undefined ? "" : `; did you mean "${close}"?`;
    console.error(`sluice: unknown command "${name}"${hint}\n\n${await overview()}`);
    return 2;
  }
  if (command.semiSpaceMiB !== undefined) becomeServerProcess(command.semiSpaceMiB);
  try {
    return await runCommand(await command.load(), rest);
  } catch (error) {
    if (!isUsageError(error)) throw error;
    console.error(`sluice ${name}: ${error.message}\nSee: sluice ${name} --help`);
    return 2;
  }
}

function withoutAliases(argv: readonly string[]): readonly string[] {
  const [first, second] = argv;
  if (first === "--version" || first === "-v") return ["version", ...argv.slice(1)];
  if (first === "help") return second === undefined ? ["--help"] : [second, "--help"];
  return argv;
}

async function runCommand(command: Command, argv: readonly string[]): Promise<0 | 1> {
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: { ...command.options, ...commonOptions },
    allowPositionals: true,
  });
  const options: OptionValues = values;
  if (options["help"] === true) {
    console.log(typeof command.help === "string" ? command.help : await command.help());
    return 0;
  }
  const envFile = textOf(options["env-file"]);
  if (envFile !== undefined) loadEnvFile(envFile);
  const config = textOf(options["config"]);
  const stopping = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.once(signal, () => stopping.abort());
  }
  const context = {
    print: (line: string) => void process.stdout.write(`${line}\n`),
    printToStderr: (line: string) => void process.stderr.write(`${line}\n`),
    ...findConfigFile(
      config ?? process.env["SLUICE_CONFIG"],
      command.mayUseShippedPipeline === true,
      process.env,
    ),
    commonArguments: [
      ...(config === undefined ? [] : ["--config", config]),
      ...(envFile === undefined ? [] : ["--env-file", envFile]),
    ],
    isTerminal: process.stderr.isTTY,
    signal: stopping.signal,
    json: options["json"] === true,
  };
  const exitCode = await command.run(context, options, positionals);
  keepCompiledCode();
  // Has no effect if the process ends earlier by itself.
  if (stopping.signal.aborted) setTimeout(() => process.exit(), exitGraceMs).unref();
  return exitCode;
}

function textOf(value: OptionValues[string]): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/**
 * Variables that are already set keep their values. Node itself also reads `--env-file`, even after the script name,
 * and exits with 9 if the file is missing: https://github.com/nodejs/node/issues/54232.
 */
function loadEnvFile(file: string): void {
  try {
    process.loadEnvFile(file);
  } catch (error) {
    const code = errorCode(error);
    if (code === undefined) throw error;
    throw new UsageError(`--env-file: cannot read "${file}" (${code})`);
  }
}

function isUsageError(error: unknown): error is Error {
  return error instanceof UsageError || errorCode(error)?.startsWith("ERR_PARSE_ARGS") === true;
}

async function overview(): Promise<string> {
  const lines = await Promise.all(
    Object.entries(await allCommands()).map(async ([name, { load }]) => {
      return `  ${name.padEnd(15)}${(await load()).summary}`;
    }),
  );
  return [
    "usage: sluice <command> [options]",
    "",
    ...lines,
    "",
    "Options of every command:",
    "  --config FILE    path of pipeline.yaml (default: SLUICE_CONFIG, else ./pipeline.yaml)",
    "  --env-file FILE  read environment variables from FILE; variables that are already set keep their values",
    "  --json           print JSON instead of text",
    "  --help           print help for the command",
    "",
    "sluice --version prints the version.",
    "Exit codes: 0 success, 1 failure, 2 usage error.",
  ].join("\n");
}
