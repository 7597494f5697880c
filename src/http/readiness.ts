/** Whether the gateway can serve, and why not: what /readyz answers. */
import type { AccountsService } from "../../plugins/billing/accounts/accounts.ts";
import type { MeterService } from "../../plugins/billing/metering/meter.ts";
import type { Generation } from "../pipeline/load/generation.ts";
import type { ServiceHooks } from "../plugin.ts";

export interface Readiness {
  readonly ready: boolean;
  /** What was looked at: `ok`, or what is the matter. */
  readonly checks: Readonly<Record<string, string>>;
}

/** Backends of one kind. One of them that can be used is enough. */
interface Kind {
  readonly title: string;
  /** What is wrong with one that cannot be used. */
  readonly otherwise: string;
  readonly members: readonly Member[];
}

interface Member {
  readonly name: string;
  readonly isReady: boolean;
  /** Its address is the default of a variable that nobody set. */
  readonly isDefault: boolean;
}

/**
 * decisions.md sections 4 and 13: the stores are usable, at least one backend of each kind in use is, and the gateway is
 * not draining. A backend at a default address does not count, unless every backend is at one.
 */
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
  const kinds = kindsOf(generation);
  const isAnyNamed = kinds.some(({ members }) => members.some(({ isDefault }) => !isDefault));
  const counts = ({ isDefault }: Member): boolean => !isDefault || !isAnyNamed;
  for (const { title, otherwise, members } of kinds) {
    for (const member of members) {
      const state = counts(member)
        ? otherwise
        : `${otherwise}, not required: its address is a default`;
      checks[`${title} ${member.name}`] = member.isReady ? "ok" : state;
    }
    if (members.some(counts) && !members.some(({ isReady }) => isReady)) ready = false;
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

function kindsOf({ config, ledgers, upstreams, networks }: Generation): Kind[] {
  const upstream = (name: string, isReady: boolean): Member => {
    return { name, isReady, isDefault: config.upstreams.get(name)?.isDefault === true };
  };
  const defaults = new Set(
    config.networks.flatMap(({ name, isDefault }) => (isDefault === true ? [name] : [])),
  );
  return [
    {
      title: "upstream",
      otherwise: "no usable node",
      members: [...ledgers].map(([name, { ready }]) => upstream(name, ready)),
    },
    {
      title: "upstream",
      otherwise: "unreachable",
      members: [...upstreams].map(([name, { ready }]) => upstream(name, ready)),
    },
    {
      title: "network",
      otherwise: "no usable worker",
      members: networks.map(({ name, ready }) => {
        return { name, isReady: ready, isDefault: defaults.has(name) };
      }),
    },
  ];
}
