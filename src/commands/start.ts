import { printFault, shownPath } from "../config/fault.ts";
import { pluginModules } from "../pipeline/load/load.ts";
import { startGateway, type Gateway, type StartOptions } from "../gateway/gateway.ts";
import { StartError } from "../start-error.ts";
import { refusePositionals, type Command, type CommandContext } from "./command.ts";
import { catchFatalErrors, type FatalErrors } from "./fatal-errors.ts";
import { limitHeapGrowth } from "./server-process.ts";
import { shippedModules } from "../pipeline/load/modules.ts";
import { version } from "../base/version.ts";

export const start: Command = {
  summary: "run the gateway",
  help: `usage: sluice start [--config FILE] [--env-file FILE] [--json]

Runs the gateway that pipeline.yaml describes until SIGTERM or SIGINT. Then the gateway drains: running requests and
streams finish, exchanges settle, and the exit code is 0. The gateway reloads pipeline.yaml on SIGHUP and when the
file changes.

The log is written to standard output, one JSON document per line. The entry "the gateway is listening" has the
addresses. If standard error is a terminal, the addresses are also printed there as text.

  --config FILE     path of pipeline.yaml (default: SLUICE_CONFIG, else ./pipeline.yaml); sluice init writes one
  --env-file FILE   read environment variables from FILE, such as .env; variables that are already set keep their values
  --json            also print { url, admin_url } on one line when the gateway listens`,
  options: {},
  async run(context, _values, positionals) {
    refusePositionals(positionals);
    using fatal = catchFatalErrors({ modules: pluginModules });
    const gateway = await startOrPrintFaults(context);
    if (gateway === undefined) return 1;
    fatal.drain = drainOf(gateway);
    await announce(context, gateway);
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

export async function startOrPrintFaults(
  context: CommandContext,
  more: Pick<StartOptions, "log" | "strict" | "without"> = {},
): Promise<Gateway | undefined> {
  const { configFile, env } = context;
  try {
    const gateway = await startGateway({ configFile, env, ...more });
    limitHeapGrowth();
    // Added before the gateway is announced, because without a listener the signal would end the process.
    const reload = (): void => void gateway.reloader.reload("SIGHUP");
    process.on("SIGHUP", reload);
    const stop = (): Promise<void> => gateway.stop().finally(() => process.off("SIGHUP", reload));
    return { ...gateway, stop };
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    for (const fault of error.faults) context.printToStderr(printFault(fault, process.cwd()));
    return undefined;
  }
}

export function drainOf(gateway: Gateway): FatalErrors["drain"] {
  const { drainDelaySeconds, drainSeconds } = gateway.config.server;
  return { stop: () => gateway.stop(), limitMs: (drainDelaySeconds + drainSeconds) * 1000 };
}

export async function runUntilStopped(gateway: Gateway, signal: AbortSignal): Promise<void> {
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  }
  await gateway.stop();
}

/**
 * Standard output has only JSON lines, for log collectors. A terminal on standard error gets the same facts as text.
 */
export async function announce(context: CommandContext, gateway: Gateway): Promise<void> {
  const { url, adminUrl, log, config } = gateway;
  if (context.json) context.print(JSON.stringify({ url, admin_url: adminUrl }));
  log.info({ url, adminUrl, version, config: config.file }, "the gateway is listening");
  const { firstSteps } = await shippedModules();
  const found = await Promise.all(
    firstSteps.map(async (load) => (await load())(gateway, repeated(context))),
  );
  const steps = found.filter((step) => step !== undefined);
  for (const { message, next } of steps) log.warn({ next }, message);
  if (context.isTerminal !== true || context.json) return;
  context.printToStderr(addresses(gateway));
  for (const { text } of steps) context.printToStderr(text);
}

function addresses({ url, adminUrl, config }: Gateway): string {
  return `
Sluice ${version} is listening.

  clients     ${url}
  dashboard   ${adminUrl}/dashboard (sign in with a key that has platform:admin)
  health      ${adminUrl}/readyz
  config      ${shownPath(config.file, process.cwd())}, data in ${dataPlace(config)}
`;
}

function dataPlace({ store }: Gateway["config"]): string {
  return store.postgres === undefined ? shownPath(store.data, process.cwd()) : "PostgreSQL";
}

/** Arguments for commands that are proposed to the user. */
function repeated({ commonArguments = [] }: CommandContext): string {
  return commonArguments.map((argument) => ` ${quoted(argument)}`).join("");
}

function quoted(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
