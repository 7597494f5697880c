/** `sluice start`: runs the gateway until SIGTERM or SIGINT, then drains. */
import { printFault } from "../config/fault.ts";
import { pluginModules } from "../pipeline/load.ts";
import { startGateway, type Gateway, type StartOptions } from "../server/gateway.ts";
import { StartError } from "../server/start-error.ts";
import type { Command, CommandContext } from "./command.ts";
import { catchFatalErrors, type FatalErrors } from "./fatal-errors.ts";

export const start: Command = {
  summary: "run the gateway",
  help: `usage: sluice start [--config FILE] [--json]

Runs the gateway that pipeline.yaml describes until SIGTERM or SIGINT, then drains: running requests and streams
finish, charges are settled, exit 0. SIGHUP or a change of the file reloads it.

  --json   print the addresses as one JSON document when listening`,
  options: {},
  async run(context) {
    using fatal = catchFatalErrors({ modules: pluginModules });
    const gateway = await startOrComplain(context);
    if (gateway === undefined) return 1;
    fatal.drain = drainOf(gateway);
    if (context.json) {
      context.print(JSON.stringify({ url: gateway.url, admin_url: gateway.adminUrl }));
    } else {
      context.print(`sluice listens on ${gateway.url}, admin on ${gateway.adminUrl}`);
    }
    await runUntilStopped(gateway, context.signal);
    return 0;
  },
};

/** Starts the gateway and has SIGHUP reload it, or prints every fault and returns undefined. */
export async function startOrComplain(
  context: CommandContext,
  more: Pick<StartOptions, "log" | "strict"> = {},
): Promise<Gateway | undefined> {
  const { configFile, env } = context;
  try {
    const gateway = await startGateway({ configFile, env, ...more });
    // Before anybody is told that it runs: without a listener the signal would end the process.
    process.on("SIGHUP", () => void gateway.reloader.reload("SIGHUP"));
    return gateway;
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    for (const fault of error.faults) context.complain(printFault(fault, process.cwd()));
    return undefined;
  }
}

/** How a gateway ends after a fatal error: as after SIGTERM. */
export function drainOf(gateway: Gateway): FatalErrors["drain"] {
  const { drainDelaySeconds, drainSeconds } = gateway.config.server;
  return { stop: () => gateway.stop(), limitMs: (drainDelaySeconds + drainSeconds) * 1000 };
}

/** Drains and returns when `signal` aborts. */
export async function runUntilStopped(gateway: Gateway, signal: AbortSignal): Promise<void> {
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  }
  await gateway.stop();
}
