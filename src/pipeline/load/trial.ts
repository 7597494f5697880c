/**
 * A trial run for `sluice check`: starts every plugin of a configuration with services that touch nothing (no store, no
 * node, no log), stops them again, and says what went wrong. A gateway may be running on the same files meanwhile.
 */
import { systemClock } from "../../clock.ts";
import { orderFaults, type Fault } from "../../config/fault.ts";
import { createLog } from "../../log.ts";
import { createMetrics } from "../../metrics.ts";
import type { ComputeOutcome } from "../../plugin.ts";
import type { Checked, Judged } from "./check-file.ts";
import { gatewayInfo } from "./gateway-info.ts";
import { provision } from "./generation.ts";
import { createSeal } from "../../store/seal.ts";
import { KeptParts } from "./kept-parts.ts";
import type { Services } from "./services.ts";
import { coreMetrics } from "../observe/stats.ts";

type Env = Readonly<Record<string, string | undefined>>;

/** All faults of a file that was checked, those of starting what of it is sound included. Nothing stays started. */
export async function tryOut(
  { checked, sound, faults }: Omit<Judged, "outdated">,
  env: Env,
): Promise<Pick<Judged, "checked" | "faults">> {
  if (sound === undefined) return { checked, faults };
  const all = orderFaults([...faults, ...(await trialFaults(sound, env))]);
  return { checked: all.length === 0 ? checked : undefined, faults: all };
}

async function trialFaults(sound: Checked, env: Env): Promise<readonly Fault[]> {
  const services = inertServices(env);
  const core = coreMetrics(services.metrics);
  const { generation, faults } = await provision(sound, services, core);
  await generation?.retire();
  const { fastify } = sound.config;
  if (fastify.length === 0) return faults;
  const { fastifyFaults } = await import("./fastify-app.ts");
  return [...faults, ...(await fastifyFaults(fastify, services.log))];
}

/** No request reaches a trial, so that what these answer never matters. */
function inertServices(env: Env): Services {
  const metrics = createMetrics();
  return {
    dryRun: true,
    log: createLog({ level: "silent" }),
    clock: systemClock,
    metrics,
    seal: createSeal("trial"),
    claims: { claim: () => false, has: () => false },
    store: { folder: "", postgres: undefined },
    compute: { run: notRun, background: { run: notRun } },
    parts: new KeptParts(),
    gateway: gatewayInfo(
      (name) => env[name],
      () => undefined,
    ),
  };
}

const notRun = (): Promise<ComputeOutcome> => Promise.resolve({ ok: false, reason: "busy" });
