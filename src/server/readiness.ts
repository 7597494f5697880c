/** Whether the gateway can serve, and why not: what /readyz answers. */
import type { AccountsService } from "../accounts/accounts.ts";
import type { MeterService } from "../metering/meter.ts";
import type { Generation } from "../pipeline/generation.ts";

export interface Readiness {
  readonly ready: boolean;
  /** What was looked at: `ok`, or what is the matter. */
  readonly checks: Readonly<Record<string, string>>;
}

/** The stores usable, at least one node of every upstream in use, and not draining. */
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
  for (const [name, ledger] of generation.ledgers) {
    checks[`upstream ${name}`] = ledger.ready ? "ok" : "no usable node";
  }
  return { ready: Object.values(checks).every((state) => state === "ok"), checks };
}
