/**
 * The text of a charge's record, in lines: the request's id, what the agent said of itself, the pricing of an
 * inference.
 */
import type { Agent } from "../../../src/services/accounts.ts";
import type { Pricing } from "../../../src/services/networks.ts";

/** Characters of a request's id; a longer one is cut. */
const idChars = 256;
/** Characters of an agent's line. Its texts come bounded, all but the capabilities to less than this together. */
const agentChars = 1_280;
const pricingChars = 256;
/** Characters of the whole. */
export const chargeTextChars = idChars + agentChars + pricingChars;

export interface ChargeText {
  readonly requestId: string;
  readonly agent: Agent | undefined;
  readonly pricing: Pricing | undefined;
}

/** An agent's members by their places in its line. */
type AgentLine = readonly [
  name: string | null,
  version: string | null,
  sessionId: string | null,
  provider: string | null,
  capabilities: readonly string[] | null,
];

export function chargeText(requestId: string, agent: Agent | undefined): string {
  const id = requestId.slice(0, idChars);
  return agent === undefined ? id : `${id}\n${agentLine(agent)}`;
}

/** `text`: what `chargeText` made. */
export function withPricing(text: string, pricing: Pricing | undefined): string {
  if (pricing === undefined) return text;
  const { network, coefficient, pricePerTokenNano, tokenUsdRate, asOf } = pricing;
  const parts = [network, coefficient, pricePerTokenNano, tokenUsdRate ?? null, asOf];
  const head = text.includes("\n") ? text : `${text}\n`;
  return `${head}\n${JSON.stringify(parts)}`;
}

export function readChargeText(text: string): ChargeText {
  const [requestId = "", agent = "", pricing = ""] = text.split("\n", 3);
  return { requestId, agent: readAgent(agent), pricing: readPricing(pricing) };
}

/** The capabilities go first where all of it would be too long, then whatever an agent's step should have cut. */
function agentLine({ name, version, sessionId, provider, capabilities }: Agent): string {
  const texts = [name, version, sessionId, provider];
  const whole = JSON.stringify([...texts, capabilities]);
  if (whole.length <= agentChars) return whole;
  const short = JSON.stringify([...texts, null]);
  return short.length <= agentChars ? short : "";
}

function readAgent(line: string): Agent | undefined {
  if (!line.endsWith("]")) return undefined;
  // Written by `agentLine` alone.
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
  // A text that was too long has no end.
  if (!line.endsWith("]")) return undefined;
  // Written by `withPricing` alone.
  const parts = JSON.parse(line) as [string, number, string, string | null, string];
  const [network, coefficient, pricePerTokenNano, rate, asOf] = parts;
  return { network, coefficient, pricePerTokenNano, tokenUsdRate: rate ?? undefined, asOf };
}
