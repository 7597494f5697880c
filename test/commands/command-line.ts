/** Runs a command in this process, as main would, with a data folder of the test. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { parseArgs } from "node:util";
import type { Command, CommandContext } from "../../src/commands/command.ts";
import { temporaryFolder } from "../store/folder.ts";

export interface CommandRun {
  readonly code: 0 | 1;
  readonly out: readonly string[];
  readonly err: readonly string[];
}

export interface CommandLine {
  readonly folder: string;
  readonly data: string;
  readonly configFile: string;
  readonly run: (command: Command, ...argv: string[]) => Promise<CommandRun>;
  readonly with: (more: Readonly<Record<string, string>>) => CommandLine;
  /** Runs a command with `--json` and returns the one document that was printed. */
  readonly json: (command: Command, ...argv: string[]) => Promise<Record<string, unknown>>;
}

const pipeline = `version: 1
environment: \${GATEWAY_ENV}
secret: \${GATEWAY_SECRET:-at-least-sixteen-characters}
store: { data: ./data, postgres: "\${DATABASE_URL:-}", redis: "\${REDIS_URL:-}" }
routes:
  - { path: /x, methods: [GET], run: [], to: models }
`;

/** `more`: environment variables in addition to GATEWAY_ENV. */
export function commandLine(
  t: TestContext,
  environment = "dev",
  more: Readonly<Record<string, string>> = {},
): CommandLine {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "pipeline.yaml"), pipeline);
  return commandLineIn(folder, { GATEWAY_ENV: environment, ...more });
}

function commandLineIn(folder: string, env: Readonly<Record<string, string>>): CommandLine {
  const configFile = join(folder, "pipeline.yaml");
  const run: CommandLine["run"] = async (command, ...argv) => {
    const { values, positionals } = parseArgs({
      args: argv,
      options: { ...command.options, json: { type: "boolean" } },
      allowPositionals: true,
    });
    const out: string[] = [];
    const err: string[] = [];
    const context: CommandContext = {
      env,
      print: (line) => void out.push(line),
      printToStderr: (line) => void err.push(line),
      configFile,
      signal: new AbortController().signal,
      json: values["json"] === true,
    };
    return { code: await command.run(context, values, positionals), out, err };
  };
  return {
    folder,
    data: join(folder, "data"),
    configFile,
    run,
    with: (more) => commandLineIn(folder, { ...env, ...more }),
    async json(command, ...argv) {
      const { code, out, err } = await run(command, ...argv, "--json");
      if (code !== 0 || out.length !== 1) throw new Error([...out, ...err].join("\n"));
      return JSON.parse(out[0] ?? "") as Record<string, unknown>;
    },
  };
}
