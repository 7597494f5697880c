/** The JSON of a settled charge in exports (decisions.md section 12): snake_case names and RFC 3339 times. */
import type { Agent, Pricing } from "sluice-gateway/services";
import type { Drawn } from "../leases/months.ts";
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
  /** Parts of the two counts above. Present only if classes of tokens have prices, and not in CSV. */
  readonly cached_tokens?: number;
  readonly reasoning_tokens?: number;
  readonly estimated: boolean;
  readonly outcome: string;
  /** Present only if an agent described itself. Not in CSV, because its columns are fixed. */
  readonly agent?: ReturnType<typeof agentJson>;
  /** Prices from which the charge of an inference was computed. Not in CSV. */
  readonly pricing?: ReturnType<typeof pricingJson>;
}

type Charged = Omit<UsageRow, "id" | keyof Drawn>;

export function usageJson(row: UsageRow): UsageJson {
  return { id: row.id, ...describe(row) };
}

/** Returns a charge as the columns of the table `charges` in PostgreSQL, whose names are those of the export. */
export function chargeColumns(row: Charged, seq: number): object {
  return { seq, ...describe(row), ...(row.route !== undefined && { route: row.route }) };
}

function describe(row: Charged): Omit<UsageJson, "id"> {
  return {
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
    ...(row.pricing?.classes !== undefined && {
      cached_tokens: row.cachedTokens,
      reasoning_tokens: row.reasoningTokens,
    }),
    estimated: row.estimated,
    outcome: row.outcome,
    ...(row.agent !== undefined && { agent: agentJson(row.agent) }),
    ...(row.pricing !== undefined && { pricing: pricingJson(row.pricing) }),
  };
}

function agentJson({ sessionId, ...members }: Agent) {
  return { ...members, session_id: sessionId };
}

function pricingJson(pricing: Pricing) {
  return {
    network: pricing.network,
    coefficient: pricing.coefficient,
    price_per_token_nano: pricing.pricePerTokenNano,
    // If classes of tokens have prices, the price above is the highest of them.
    ...(pricing.classes !== undefined && { classes: pricing.classes }),
    // Null if the rate was unknown. The charge is then 0.
    token_usd_rate: pricing.tokenUsdRate ?? null,
    as_of: pricing.asOf,
  };
}

/**
 * Returns a value as JSON that PostgreSQL can store. U+0000 and half surrogate pairs, which it refuses, become U+FFFD,
 * because one such charge would block all later ones.
 */
export function storableJson(value: object): string {
  const text = JSON.stringify(value);
  return text.includes("\\u") ? JSON.stringify(value, storable) : text;
}

function storable(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd").toWellFormed() : value;
}
