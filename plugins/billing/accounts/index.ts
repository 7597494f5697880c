import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import { planNames, type PlanName } from "sluice-gateway/services";
import { closed } from "../metering/options.ts";
import type { Plans } from "./principal.ts";
import type { RunningAccounts } from "./workspaces-service.ts";

/** The section `plans` of pipeline.yaml after validation, with defaults. */
interface Options {
  readonly plans: Readonly<Record<PlanName, PlanOptions>>;
}

interface PlanOptions {
  readonly rps: number;
  readonly includedCu: number;
  readonly overageUsdPerCu: string;
  readonly keys: number;
}

function plan(name: string, defaults: PlanOptions): JsonSchema {
  return closed(
    `Terms of the ${name} plan.`,
    {
      rps: {
        type: "number",
        exclusiveMinimum: 0,
        maximum: 1_000_000,
        default: defaults.rps,
        description: "Requests per second. The burst is twice this number.",
      },
      includedCu: {
        type: "integer",
        minimum: 0,
        maximum: 1_000_000_000_000,
        default: defaults.includedCu,
        description: "Credit units included in a calendar month (UTC).",
      },
      overageUsdPerCu: {
        type: "string",
        format: "decimal-or-none",
        default: defaults.overageUsdPerCu,
        description:
          'USD per CU beyond the included and purchased amount. With "none", such calls are refused.',
      },
      keys: {
        type: "integer",
        minimum: 1,
        maximum: 1_000_000,
        default: defaults.keys,
        description:
          "Active keys that a workspace may have if its administrator makes them. Operators can make more.",
      },
    },
    { default: {} },
  );
}

const paid = { overageUsdPerCu: "0.001" };

/** The limits are from gateway.md, "Limits". Keys and overage are from decisions.md, sections 2 and 3. */
const plans = closed(
  "Terms of the plans.",
  {
    free: plan("free", { rps: 2, includedCu: 10_000_000, overageUsdPerCu: "none", keys: 10 }),
    developer: plan("developer", { ...paid, rps: 10, includedCu: 29_000_000, keys: 50 }),
    startup: plan("startup", { ...paid, rps: 50, includedCu: 99_000_000, keys: 250 }),
    enterprise: plan("enterprise", { ...paid, rps: 200, includedCu: 499_000_000, keys: 1_000 }),
  },
  { default: {} },
);

export default defineService<Options, RunningAccounts>({
  name: "accounts",
  description: "Workspaces, API keys, idempotency keys, tickets and the audit log.",
  sections: { plans },
  uses: ["metering"],
  permissions: { deployment: ["store", "seal", "claims"] },
  update(accounts, options) {
    accounts.setPlans(plansOf(options));
  },
  async dryRun(options, host) {
    const { accountsWithoutStore } = await import("./workspaces-service.ts");
    return accountsWithoutStore(plansOf(options), host);
  },
  async start(options, host, context) {
    const { startAccounts } = await import("./start.ts");
    return startAccounts(plansOf(options), host, context);
  },
});

function plansOf({ plans: given }: Options): Plans {
  const termsOf = ({ rps, includedCu, overageUsdPerCu, keys }: PlanOptions): Plans[PlanName] => ({
    rps,
    includedMilliCu: includedCu * 1_000,
    overageUsdPerCu: overageUsdPerCu === "none" ? undefined : overageUsdPerCu,
    maxKeys: keys,
  });
  const terms = planNames.map((name) => [name, termsOf(given[name])]);
  // The entries are those of the type.
  return Object.fromEntries(terms) as Plans;
}
