import { availableParallelism } from "node:os";
import type { Plugin } from "../plugin.ts";
import type { Config } from "./config.ts";
import { fault, type Fault } from "./fault.ts";

const maxThreads = 64;
/** Whether several listeners of one process can share the connections of a port. */
const canSharePort = process.platform === "linux";

export function threadsOf(wanted: number | "auto"): number {
  if (wanted !== "auto") return wanted;
  return canSharePort ? Math.min(maxThreads, availableParallelism()) : 1;
}

export function threadFaults(config: Config): Fault[] {
  const { server, store } = config;
  if (server.threads === 1) return [];
  const unsupported = (message: string): Fault =>
    fault("SLUICE_THREADS_REFUSED", message, { at: config.keyAt("/server/threads") });
  const problems: Fault[] = [];
  if (!canSharePort) {
    problems.push(unsupported(`several threads cannot share a port on ${process.platform}`));
  }
  for (const name of ["postgres", "redis"] as const) {
    if (store[name] === undefined) continue;
    problems.push(unsupported(`${server.threads} threads cannot use store.${name}`));
  }
  return problems;
}

export function oneThreadFaults(config: Config, plugins: ReadonlyMap<string, Plugin>): Fault[] {
  if (config.server.threads === 1) return [];
  return [...plugins.values()].flatMap(({ name, needsOneThread = false }) => {
    const message = `the plugin "${name}" does not work with several threads`;
    const at = config.keyAt("/server/threads");
    return needsOneThread ? [fault("SLUICE_THREADS_REFUSED", message, { at })] : [];
  });
}
