/** `sluice start`: runs the gateway until SIGTERM or SIGINT, then drains. */
import { printFault } from "../config/fault.ts";
import { pluginModules } from "../pipeline/load/load.ts";
import { startGateway, type Gateway, type StartOptions } from "../gateway/gateway.ts";
import { StartError } from "../start-error.ts";
import { announce } from "./announce.ts";
import type { Command, CommandContext } from "./command.ts";
import { catchFatalErrors, type FatalErrors } from "./fatal-errors.ts";
import { limitHeapGrowth } from "./server-process.ts";

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
  async run(context) {
    using fatal = catchFatalErrors({ modules: pluginModules });
    const gateway = await startOrPrintFaults(context);
    if (gateway === undefined) return 1;
    fatal.drain = drainOf(gateway);
    await announce(context, gateway);
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

/** Starts the gateway and reloads it on SIGHUP. Prints every fault and returns undefined if it does not start. */
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

/** Drains the gateway after a fatal error in the same way as after SIGTERM. */
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
