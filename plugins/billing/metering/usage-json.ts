/** A settled charge as exports print and send it (decisions.md section 12): snake_case, RFC 3339 times. */
import type { Agent } from "../../../src/services/accounts.ts";
import type { Pricing } from "../../../src/services/networks.ts";
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
  /** Only where an agent said something of itself, and not in CSV, whose columns are fixed. */
  readonly agent?: AgentJson;
  /** Only of inference, and not in CSV: what the charge was reckoned with. */
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
  /** Null: it was not known, and the charge is 0. */
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

function agentJson({ sessionId, ...members }: Agent): AgentJson {
  return { ...members, session_id: sessionId };
}

function pricingJson(pricing: Pricing): PricingJson {
  return {
    network: pricing.network,
    coefficient: pricing.coefficient,
    price_per_token_nano: pricing.pricePerTokenNano,
    token_usd_rate: pricing.tokenUsdRate ?? null,
    as_of: pricing.asOf,
  };
}
