/** The section `plans` of pipeline.yaml. */
import type { JsonSchema } from "sluice-gateway/plugin";
import type { PlanName } from "sluice-gateway/services";
import type { Plans } from "./principal.ts";

/** The section after validation, with defaults. */
export interface Options {
  readonly plans: Readonly<Record<PlanName, PlanOptions>>;
}

interface PlanOptions {
  readonly rps: number;
  readonly includedCu: number;
  readonly overageUsdPerCu: string;
}

type Properties = Readonly<Record<string, JsonSchema>>;

/** The schema of an object that does not accept other keys. */
function closed(description: string, properties: Properties, more: JsonSchema = {}): JsonSchema {
  return { type: "object", description, properties, additionalProperties: false, ...more };
}

function plan(name: string, rps: number, includedCu: number, overage: string): JsonSchema {
  return closed(
    `Terms of the ${name} plan.`,
    {
      rps: {
        type: "number",
        exclusiveMinimum: 0,
        maximum: 1_000_000,
        default: rps,
        description: "Requests per second. The burst is twice this number.",
      },
      includedCu: {
        type: "integer",
        minimum: 0,
        maximum: 1_000_000_000_000,
        default: includedCu,
        description: "Credit units included in a calendar month (UTC).",
      },
      overageUsdPerCu: {
        type: "string",
        format: "decimal-or-none",
        default: overage,
        description:
          'USD per CU beyond the included and purchased amount. With "none", such calls are refused.',
      },
    },
    { default: {} },
  );
}

/** The limits are from gateway.md, "Limits". The overage of the paid plans is from decisions.md section 3. */
const plans = closed(
  "Terms of the plans.",
  {
    free: plan("free", 2, 10_000_000, "none"),
    developer: plan("developer", 10, 29_000_000, "0.001"),
    startup: plan("startup", 50, 99_000_000, "0.001"),
    enterprise: plan("enterprise", 200, 499_000_000, "0.001"),
  },
  { default: {} },
);

export const sections = { plans };

export function plansOf({ plans: given }: Options): Plans {
  const termsOf = ({ rps, includedCu, overageUsdPerCu }: PlanOptions): Plans[PlanName] => ({
    rps,
    includedMilliCu: includedCu * 1_000,
    overageUsdPerCu: overageUsdPerCu === "none" ? undefined : overageUsdPerCu,
  });
  const { free, developer, startup, enterprise } = given;
  return {
    free: termsOf(free),
    developer: termsOf(developer),
    startup: termsOf(startup),
    enterprise: termsOf(enterprise),
  };
}
