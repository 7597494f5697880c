/** Whether the gateway can serve, and why not: what /readyz answers. */
import type { AccountsService } from "../accounts/accounts.ts";
import type { MeterService } from "../metering/meter.ts";
import type { Generation } from "../pipeline/generation.ts";
import type { ServiceHooks } from "../plugin.ts";

export interface Readiness {
  readonly ready: boolean;
  /** What was looked at: `ok`, or what is the matter. */
  readonly checks: Readonly<Record<string, string>>;
}

/** Things of one kind behind the gateway, by name: one of them that can be used is enough. */
interface Kind {
  readonly title: string;
  /** What is the matter with one that cannot be used. */
  readonly otherwise: string;
  readonly members: readonly (readonly [name: string, ready: boolean])[];
}

/** decisions.md section 4: the stores usable, at least one upstream of each kind in use, and not draining. */
export function readiness(parts: {
  readonly draining: boolean;
  readonly generation: Generation;
  readonly accounts: AccountsService;
  readonly meter: MeterService;
}): Readiness {
  const { draining, generation, accounts, meter } = parts;
  const checks: Record<string, string> = {
    draining: draining ? "draining" : "ok",
    accounts: accounts.stats().healthy ? "ok" : "not readable",
    journal: meter.writable ? "ok" : "not writable",
  };
  let ready = Object.values(checks).every((state) => state === "ok");
  for (const [name, service] of generation.services) {
    const state = stateOf(service);
    checks[`service ${name}`] = state;
    if (state !== "ok") ready = false;
  }
  for (const { title, otherwise, members } of kindsOf(generation)) {
    for (const [name, isReady] of members) checks[`${title} ${name}`] = isReady ? "ok" : otherwise;
    if (members.length > 0 && !members.some(([, isReady]) => isReady)) ready = false;
  }
  return { ready, checks };
}

function stateOf(service: ServiceHooks<unknown>): string {
  try {
    const state = service.ready?.() ?? true;
    return state === true ? "ok" : state;
  } catch {
    // The service is a third party's code, and a probe must get an answer.
    return "failed to report";
  }
}

function kindsOf({ ledgers, upstreams, networks }: Generation): Kind[] {
  return [
    {
      title: "upstream",
      otherwise: "no usable node",
      members: [...ledgers].map(([name, ledger]) => [name, ledger.ready]),
    },
    {
      title: "upstream",
      otherwise: "unreachable",
      members: [...upstreams].map(([name, upstream]) => [name, upstream.ready]),
    },
    {
      title: "network",
      otherwise: "no usable worker",
      members: networks.map((network) => [network.name, network.ready]),
    },
  ];
}
