/** The JSON of a settled charge in exports (decisions.md section 12): snake_case names and RFC 3339 times. */
import type { Agent, ClassPrices, Pricing } from "sluice-gateway/services";
import type { UsageRow } from "./read-usage.ts";

export interface UsageJson {
  readonly id: string;
  readonly time: string;
  readonly workspace_id: string;
  readonly key_id: string;
  readonly surface: string;
  readonly method: string;
  readonly model: string | null;
  readonly request_id: string;
  readonly used_cu_milli: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly estimated: boolean;
  readonly outcome: string;
  /** Present only if an agent described itself. Not in CSV, because its columns are fixed. */
  readonly agent?: AgentJson;
  /** Prices from which the charge of an inference was computed. Not in CSV. */
  readonly pricing?: PricingJson;
}

interface AgentJson {
  readonly name?: string | undefined;
  readonly version?: string | undefined;
  readonly session_id?: string | undefined;
  readonly provider?: string | undefined;
  readonly capabilities?: readonly string[] | undefined;
}

interface PricingJson {
  readonly network: string;
  readonly coefficient: number;
  readonly price_per_token_nano: string;
  /** Present only if classes of tokens have prices; the price above is then the highest of them. */
  readonly classes?: ClassPrices;
  /** Null if the rate was unknown; the charge is then 0. */
  readonly token_usd_rate: string | null;
  readonly as_of: string;
}

export function usageJson(row: UsageRow): UsageJson {
  return {
    id: row.id,
    time: new Date(row.time).toISOString(),
    workspace_id: row.workspaceId,
    key_id: row.keyId,
    surface: row.surface,
    method: row.method,
    model: row.model ?? null,
    request_id: row.requestId,
    used_cu_milli: row.usedMilliCu,
    input_tokens: row.inputTokens,
    output_tokens: row.outputTokens,
    estimated: row.estimated,
    outcome: row.outcome,
    ...(row.agent !== undefined && { agent: agentJson(row.agent) }),
    ...(row.pricing !== undefined && { pricing: pricingJson(row.pricing) }),
  };
}

export function agentJson({ sessionId, ...members }: Agent): AgentJson {
  return { ...members, session_id: sessionId };
}

export function pricingJson(pricing: Pricing): PricingJson {
  return {
    network: pricing.network,
    coefficient: pricing.coefficient,
    price_per_token_nano: pricing.pricePerTokenNano,
    ...(pricing.classes !== undefined && { classes: pricing.classes }),
    token_usd_rate: pricing.tokenUsdRate ?? null,
    as_of: pricing.asOf,
  };
}
