/**
 * A trial run for `sluice check`: starts every plugin of a configuration with services that touch nothing (no store, no
 * node, no log), stops them again, and says what went wrong. A gateway may be running on the same files meanwhile.
 */
import { systemClock } from "../../clock.ts";
import { fault } from "../../../plugins/confidential/protocol/fault.ts";
import { readSignedPolicy } from "../../../plugins/confidential/relay/policy.ts";
import type { EvidenceService } from "../../../plugins/confidential/evidence/evidence-service.ts";
import { orderFaults, type Fault } from "../../config/fault.ts";
import { createLog } from "../../log.ts";
import { createMetrics } from "../../metrics.ts";
import type { ComputeOutcome, Confidential, Workspaces } from "../../plugin.ts";
import type { Checked, Judged } from "./check-file.ts";
import { gatewayInfo } from "./gateway-info.ts";
import { provision } from "./generation.ts";
import { createSeal } from "../../store/seal.ts";
import { KeptParts } from "./kept-parts.ts";
import type { Services } from "./services.ts";
import { coreMetrics } from "../observe/stats.ts";

/** All faults of a file that was checked, those of starting what of it is sound included. Nothing stays started. */
export async function tryOut({
  checked,
  sound,
  faults,
}: Omit<Judged, "outdated">): Promise<Pick<Judged, "checked" | "faults">> {
  if (sound === undefined) return { checked, faults };
  const all = orderFaults([...faults, ...(await trialFaults(sound))]);
  return { checked: all.length === 0 ? checked : undefined, faults: all };
}

async function trialFaults(sound: Checked): Promise<readonly Fault[]> {
  const services = inertServices();
  const core = coreMetrics(services.metrics);
  const { generation, faults } = await provision(sound, services, core);
  await generation?.retire();
  const { fastify } = sound.config;
  if (fastify.length === 0) return faults;
  const { fastifyFaults } = await import("./fastify-app.ts");
  return [...faults, ...(await fastifyFaults(fastify, services.log))];
}

const stranger = { kind: "anonymous", reason: "unauthorized" } as const;
const unavailable = { kind: "unavailable" } as const;
const inertWorkspaces: Workspaces = {
  find: () => unavailable,
  upgrade: () => unavailable,
  downgrade: () => unavailable,
  cancelDowngrade: () => unavailable,
  purchase: () => unavailable,
  changes: () => unavailable,
  usage: () => Promise.resolve(unavailable),
};

const noEnclave = fault("ATTESTATION_UNAVAILABLE", "a trial attests nothing");
const inertConfidential: Confidential = {
  stream: () => ({
    ready: Promise.resolve(),
    admit: () => undefined,
    serve: () => Promise.resolve(),
    close() {},
  }),
  evidence: () => undefined,
  receipt: () => undefined,
  policy: () => Promise.resolve({ policy: "", sig: "", key: "" }),
  readPolicy: (document) => readSignedPolicy(document, systemClock),
};
const inertEvidence: EvidenceService = {
  evidence: () => ({ quote: () => Promise.resolve({ kind: "failed", reason: "unavailable" }) }),
  provider: () => Promise.resolve(noEnclave),
};

/** No request reaches a trial, so that what these answer never matters. */
function inertServices(): Services {
  const metrics = createMetrics();
  return {
    dryRun: true,
    log: createLog({ level: "silent" }),
    clock: systemClock,
    metrics,
    accounts: { identify: () => stranger, identifyKey: () => stranger },
    workspaces: inertWorkspaces,
    idempotency: { take: () => unavailable, once: () => unavailable },
    meter: { reserve: () => ({ kind: "unavailable" }) },
    seal: createSeal("trial"),
    claims: { claim: () => false, has: () => false },
    evidence: inertEvidence,
    tickets: {
      issue: () => ({ ticket: "", expiresAt: 0 }),
      redeem: () => ({ principal: stranger, terms: undefined }),
    },
    openConfidential: () => inertConfidential,
    openNetwork: ({ name, kind }) => ({
      name,
      termination: kind === "enclave" ? "worker" : "gateway",
      openStream: () => Promise.resolve(noEnclave),
      price: () => {
        throw new Error("a trial costs nothing");
      },
      models: new Map(),
      entriesWith: () => [],
      hasStatus: false,
      ready: false,
      settled: Promise.resolve(),
      close: () => Promise.resolve(),
    }),
    storeOverrides: () => false,
    store: { folder: "" },
    compute: { run: notRun, background: { run: notRun } },
    parts: new KeptParts(),
    gateway: gatewayInfo(
      () => undefined,
      () => undefined,
    ),
  };
}

const notRun = (): Promise<ComputeOutcome> => Promise.resolve({ ok: false, reason: "busy" });
