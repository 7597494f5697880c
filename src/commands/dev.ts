import type { Config } from "../config/config.ts";
import { shownPath } from "../config/fault.ts";
import { readPipeline } from "../pipeline/load/check-file.ts";
import { createLog } from "../base/log.ts";
import { pluginModules } from "../pipeline/load/load.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { version } from "../base/version.ts";
import { refusePositionals, type Command, type CommandContext } from "./command.ts";
import { shippedPipeline } from "./config-file.ts";
import { catchFatalErrors } from "./fatal-errors.ts";
import type { Demo, DemoDescription, DemoKey, ExampleRequest } from "../demo.ts";
import { drainOf, runUntilStopped, startOrPrintFaults } from "./start.ts";

export const dev: Command = {
  summary: "run the gateway with demo backends, a key and example requests",
  help,
  mayUseShippedPipeline: true,
  options: {},
  async run(context, _values, positionals) {
    refusePositionals(positionals);
    using fatal = catchFatalErrors({ destination: process.stderr, modules: pluginModules });
    await using started = new AsyncDisposableStack();
    const { demos, env: demoEnv } = await startDemos(context.env, started);
    const LOG_LEVEL = context.env["LOG_LEVEL"] || "warn";
    const env = { ...context.env, ...demoEnv, LOG_LEVEL };
    // The log goes to standard error, because standard output is for the banner. The log is held until the banner is
    // out.
    using log = new BufferedLog();
    const gateway = await startInDevelopment({ ...context, env }, log);
    if (gateway === undefined) return 1;
    fatal.drain = drainOf(gateway);
    try {
      const setUp = await prepare(gateway, demos, demoEnv);
      context.print(context.json ? JSON.stringify(asJson(setUp)) : asText(setUp));
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    log.release();
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

const ownVariables = {
  PORT: "port on which clients connect (default: 8080)",
  ADMIN_HOST: "address of the dashboard, metrics and health checks (default: 127.0.0.1)",
  ADMIN_PORT: "port of the dashboard, metrics and health checks (default: 9090)",
  DATA_DIR: "folder for the data (default: ./data)",
  LOG_LEVEL: "level of the log on standard error (default: warn); info logs every request",
};

async function help(): Promise<string> {
  const parts = (await loadDemos()).flatMap((demo) => demo.help ?? []);
  const indent = " ".repeat(29);
  const variables = [...parts.map((part) => part.variables ?? {}), ownVariables]
    .flatMap((each) => Object.entries(each))
    .map(([name, text]) => `  ${name.padEnd(27)}${text.replaceAll("\n", `\n${indent}`)}`);
  return `usage: sluice dev [--config FILE] [--env-file FILE] [--json]

Starts the gateway with demo backends, and prints example requests that work.
The command runs with GATEWAY_ENV=dev only. On SIGINT or SIGTERM the gateway drains and the command ends.

${parts.map(({ text }) => text).join("\n")}

The gateway reloads when you save pipeline.yaml, or the code of a plugin that pipeline.yaml names by its path. Plugins
are checked against their manifests: a plugin that reads or sets a slot that it has not declared, or writes to the head
of the request, fails with an error in the log.

Without --config, SLUICE_CONFIG and ./pipeline.yaml, the command runs the pipeline.yaml that ships with Sluice and keeps
its data in the working folder. To write your own pipeline.yaml, run sluice init.

Environment variables:
${variables.join("\n")}

  --json   print the addresses, the key and the example requests as one JSON document`;
}

async function loadDemos(): Promise<readonly Demo[]> {
  const { demos } = await shippedModules();
  return Promise.all(demos.map((load) => load()));
}

export async function startDemos(
  env: CommandContext["env"],
  started: AsyncDisposableStack,
): Promise<{ readonly demos: readonly Demo[]; readonly env: CommandContext["env"] }> {
  const demos = await loadDemos();
  const set: Record<string, string | undefined> = {};
  for (const demo of demos) Object.assign(set, await demo.start?.(env, started));
  return { demos, env: set };
}

class BufferedLog {
  #held: string[] | undefined = [];

  write(line: string): void {
    if (this.#held === undefined) process.stderr.write(line);
    else this.#held.push(line);
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const line of held) process.stderr.write(line);
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

/** The environment must be dev, because a key that is printed on a terminal must not be valid in a deployment. */
async function startInDevelopment(
  context: CommandContext,
  destination: BufferedLog,
): Promise<Gateway | undefined> {
  // startOrPrintFaults prints the faults of the file.
  const { config, faults } = await readPipeline(context.configFile, context.env);
  if (config === undefined || faults.length > 0) return startOrPrintFaults(context);
  if (config.environment !== "dev") {
    context.printToStderr(
      `sluice dev prints an API key, so it runs with GATEWAY_ENV=dev only, not ${config.environment}. Run sluice start instead.`,
    );
    return undefined;
  }
  const log = createLog({ level: config.log.level, destination });
  return startOrPrintFaults(context, { log, strict: true });
}

interface SetUp {
  readonly gateway: Gateway;
  readonly parts: readonly DemoDescription[];
  readonly requests: readonly ExampleRequest[];
}

async function prepare(
  gateway: Gateway,
  demos: readonly Demo[],
  demoEnv: CommandContext["env"],
): Promise<SetUp> {
  let key: DemoKey | undefined;
  for (const demo of demos) key ??= await demo.createKey?.(gateway);
  const described = await Promise.all(
    demos.map(async (demo) => demo.describe({ gateway, key, demoEnv })),
  );
  const parts = described.toSorted((a, b) => a.position - b.position);
  // The first request of each module comes first.
  const first = parts.flatMap(({ requests = [] }) => requests.slice(0, 1));
  const more = parts.flatMap(({ requests = [] }) => requests.slice(1));
  return { gateway, parts, requests: [...first, ...more] };
}

function asJson({ gateway, parts, requests }: SetUp): object {
  return {
    version,
    url: gateway.url,
    admin_url: gateway.adminUrl,
    pipelines_url: `${gateway.adminUrl}/pipelines`,
    dashboard_url: `${gateway.adminUrl}/dashboard`,
    ...Object.fromEntries(parts.flatMap(({ json }) => Object.entries(json))),
    requests,
  };
}

function asText({ gateway, parts, requests }: SetUp): string {
  const lines = [
    ...parts.flatMap((part) => part.lines),
    ["pipeline", `${gateway.adminUrl}/pipelines`],
    ["metrics", `${gateway.adminUrl}/metrics`],
    ["dashboard", `${gateway.adminUrl}/dashboard (sign in with the key)`],
    ["config", configLine(gateway.config)],
    ["data", shownPath(gateway.config.store.data, process.cwd())],
  ] as const;
  return [
    `Sluice ${version} is running.`,
    "",
    ...lines.map(([label, text]) => `  ${label.padEnd(12)}${text}`),
    "",
    ...(requests.length === 0 ? [] : ["Try it:", ""]),
    ...requests.flatMap(({ curl }) => [curl, ""]),
    ...parts.flatMap(({ commands = [] }) => commands.flatMap((command) => [command, ""])),
    "Press Ctrl-C to stop.",
  ].join("\n");
}

function configLine({ file }: Config): string {
  const shown = shownPath(file, process.cwd());
  return file === shippedPipeline && shown === file
    ? "the file that ships with Sluice (run npx sluice init to write your own)"
    : shown;
}
