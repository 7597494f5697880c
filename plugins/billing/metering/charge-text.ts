/**
 * A charge as text: the text of its record on disk, and its JSON in exports and in PostgreSQL.
 *
 * The lines of the text are the id of the request, the agent's description of itself, and the pricing of an inference.
 * Missing lines at the end are omitted. Earlier releases have written a fourth line, which is ignored.
 */
import type { Agent, ClassPrices, Pricing, SpendAmounts } from "sluice-gateway/services";
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Drawn } from "../leases/months.ts";

/** Longer ids are cut. */
const maxIdChars = 256;
/**
 * Maximum number of characters of an agent's line. The lengths of its texts are limited before; without the
 * capabilities, they are always shorter than this.
 */
const maxAgentChars = 1_280;
const maxPricingChars = 512;
export const maxChargeTextChars = maxIdChars + maxAgentChars + maxPricingChars + 2;

export interface ChargeText {
  readonly requestId: string;
  readonly agent: Agent | undefined;
  readonly pricing: Pricing | undefined;
}

type AgentLine = readonly [
  name: string | null,
  version: string | null,
  sessionId: string | null,
  provider: string | null,
  capabilities: readonly string[] | null,
];

export function chargeText(requestId: string, agent: Agent | undefined): string {
  const id = requestId.slice(0, maxIdChars);
  return agent === undefined ? id : `${id}\n${agentLine(agent)}`;
}

export function withPricing(text: string, pricing: Pricing | undefined): string {
  if (pricing === undefined) return text;
  const { network, coefficient, pricePerTokenNano, tokenUsdRate, asOf, classes } = pricing;
  const parts: unknown[] = [network, coefficient, pricePerTokenNano, tokenUsdRate ?? null, asOf];
  if (classes !== undefined) parts.push(classes);
  const head = text.includes("\n") ? text : `${text}\n`;
  return `${head}\n${JSON.stringify(parts)}`;
}

export function readChargeText(text: string): ChargeText {
  const [requestId = "", agent = "", pricing = ""] = text.split("\n", 3);
  return { requestId, agent: readAgent(agent), pricing: readPricing(pricing) };
}

/** Empty if the agent gave itself no name. */
export function tagOf(text: string): string {
  return readChargeText(text).agent?.name ?? "";
}

/**
 * Returns the agent as JSON. A plugin can set anything, so members of the wrong type are omitted: one charge that
 * cannot be written would fail all charges of its commit. If the JSON is too long, the capabilities are omitted first.
 * If it is still too long, because the agent's step did not limit its texts, the line is empty.
 */
function agentLine(agent: Agent): string {
  if (!isObject(agent)) return "";
  const { name, version, sessionId, provider, capabilities } = agent;
  const texts = [name, version, sessionId, provider].map((each) => (isText(each) ? each : null));
  const known = Array.isArray(capabilities) && capabilities.every(isText) ? capabilities : null;
  const whole = JSON.stringify([...texts, known]);
  if (whole.length <= maxAgentChars) return whole;
  const short = JSON.stringify([...texts, null]);
  return short.length <= maxAgentChars ? short : "";
}

const isText = (value: unknown): boolean => typeof value === "string";

function readAgent(line: string): Agent | undefined {
  if (!line.endsWith("]")) return undefined;
  // Only `agentLine` writes this line.
  const [name, version, sessionId, provider, capabilities] = JSON.parse(line) as AgentLine;
  return {
    name: name ?? undefined,
    version: version ?? undefined,
    sessionId: sessionId ?? undefined,
    provider: provider ?? undefined,
    capabilities: capabilities ?? undefined,
  };
}

function readPricing(line: string): Pricing | undefined {
  // A line that was cut does not end with a bracket.
  if (!line.endsWith("]")) return undefined;
  // Only `withPricing` writes this line.
  const parts = JSON.parse(line) as [string, number, string, string | null, string, ClassPrices?];
  const [network, coefficient, pricePerTokenNano, rate, asOf, classes] = parts;
  const prices = { pricePerTokenNano, ...(classes !== undefined && { classes }) };
  return { network, coefficient, ...prices, tokenUsdRate: rate ?? undefined, asOf };
}

/** One settled charge. Counts of tokens that are not known are 0. */
export interface UsageRow extends Omit<SpendAmounts, "calls"> {
  /** Stable id: the journal's id, the number of the commit and the position in the commit. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly workspaceId: string;
  readonly keyId: string;
  readonly surface: string;
  readonly method: string;
  readonly model: string | undefined;
  readonly requestId: string;
  readonly agent: Agent | undefined;
  readonly pricing: Pricing | undefined;
  readonly estimated: boolean;
  readonly outcome: string;
  /** Path of the route. Undefined in charges of releases that did not record it. */
  readonly route: string | undefined;
}

/** A settled charge in exports (decisions.md section 12): snake_case names and RFC 3339 times. */
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
  /** Missing in CSV. */
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

/** PostgreSQL refuses U+0000 and half surrogate pairs, and one such charge would block all later ones. */
export function storableJson(value: object): string {
  const text = JSON.stringify(value);
  return text.includes("\\u") ? JSON.stringify(value, storable) : text;
}

function storable(_: string, value: unknown): unknown {
  return typeof value === "string" ? value.replaceAll("\0", "\ufffd").toWellFormed() : value;
}
