/**
 * The dry run of `sluice check`: starts every plugin of a configuration with resources that touch nothing (no store, no
 * node, no log) and stops them again. A gateway may run on the same files meanwhile.
 */
import { systemClock } from "../../base/clock.ts";
import type { Config } from "../../config/config.ts";
import { fault, orderFaults, type Fault } from "../../config/fault.ts";
import { readTls, TlsError } from "../../http/tls.ts";
import { createLog } from "../../base/log.ts";
import { messageOf } from "../../base/message-of.ts";
import { HeldBytes } from "../../memory/held-bytes.ts";
import { createMetrics } from "../../base/metrics.ts";
import type { ComputeOutcome } from "../../plugin.ts";
import type { CheckResult, ValidatedConfig } from "./check-file.ts";
import { closeMs, Closer } from "./closer.ts";
import { gatewayInfo } from "./gateway-info.ts";
import { provision, type Generation } from "./generation.ts";
import { noEntries } from "../../store/plugin-entries.ts";
import { createSeal } from "../../store/seal.ts";
import { noSession } from "../../store/session.ts";
import { noSql } from "../../store/sql/work.ts";
import { KeptParts } from "./kept-parts.ts";
import type { HostResources } from "./host-resources.ts";
import { coreMetrics } from "../observe/stats.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** Returns the faults of a file that was checked, including those of starting the part that can be started. */
export async function dryRun(
  { validated, startable, faults }: Omit<CheckResult, "outdated">,
  env: Env,
): Promise<Pick<CheckResult, "validated" | "faults">> {
  if (startable === undefined) return { validated, faults };
  const all = orderFaults([...faults, ...(await startFaults(startable, env))]);
  return { validated: all.length === 0 ? validated : undefined, faults: all };
}

async function startFaults(startable: ValidatedConfig, env: Env): Promise<readonly Fault[]> {
  const resources = inertResources(env);
  const core = coreMetrics(resources.metrics);
  // The clock keeps no process alive, and a plugin that hangs must be reported.
  const keepAlive = setInterval(() => {}, 1_000);
  const all: Fault[] = [];
  try {
    const { generation, faults } = await provision(startable, resources, core);
    all.push(
      ...faults,
      ...(generation === undefined ? [] : await stopFaults(generation, resources)),
    );
  } finally {
    clearInterval(keepAlive);
  }
  all.push(...tlsFaults(startable.config));
  const { fastify } = startable.config;
  if (fastify.length === 0) return all;
  const { fastifyFaults } = await import("./fastify-app.ts");
  return [...all, ...(await fastifyFaults(fastify, resources.log))];
}

async function stopFaults(generation: Generation, resources: HostResources): Promise<Fault[]> {
  const closer = new Closer(resources);
  try {
    await generation.retire(closer);
  } catch (error) {
    return [fault("SLUICE_PLUGIN_STOP", messageOf(error))];
  }
  return closer.late.map((part) =>
    fault("SLUICE_PLUGIN_STOP", `the ${part} did not stop within ${closeMs / 1_000} s`),
  );
}

function tlsFaults(config: Config): Fault[] {
  const { tls } = config.server;
  if (tls === undefined) return [];
  try {
    readTls(tls);
    return [];
  } catch (error) {
    if (!(error instanceof TlsError)) throw error;
    return [fault("SLUICE_TLS_INVALID", error.message, { at: config.keyAt("/server/tls") })];
  }
}

/** No request reaches a dry run, so the results of these functions do not matter. */
export function inertResources(env: Env): HostResources {
  const metrics = createMetrics();
  return {
    dryRun: true,
    log: createLog({ level: "silent" }),
    clock: systemClock,
    metrics,
    seal: createSeal("dry run"),
    claims: {
      now: () => 0,
      claim: () => Promise.resolve(false),
      end: () => Promise.resolve(),
      hasEnded: () => false,
    },
    entries: noEntries,
    store: {
      folder: "",
      sql: () => noSql,
      session: noSession,
      postgres: undefined,
      redis: undefined,
      replicas: undefined,
    },
    compute: { run: notRun, background: { run: notRun } },
    parts: new KeptParts(),
    held: new HeldBytes(Infinity, metrics),
    gateway: gatewayInfo(env, new Set(), () => undefined),
  };
}

const notRun = (): Promise<ComputeOutcome> => Promise.resolve({ ok: false, reason: "busy" });
