/** One answer: its deltas as they come, and at the end what it cost and whether that can be believed. */
import type { JsonObject } from "../protocol/strict-json.ts";
import type { SignedReport, UnverifiedReason } from "../protocol/report-verdict.ts";
import type { UsageReport } from "../protocol/report.ts";
import type { OpenAiUsage } from "../protocol/text-frames.ts";
import type { Check } from "../verify/report.ts";
import type { StreamPricing } from "./cost.ts";

/** OpenAI's chat completion parameters; `model` and `stream` are the session's. */
export interface ChatRequest {
  readonly messages: readonly unknown[];
  /** At most the session's `maxOutputTokens`, which also stands where this does not. */
  readonly max_tokens?: number;
  readonly [parameter: string]: unknown;
}

/** OpenAI's `delta`, as the enclave sealed it; what has no type here has not been looked at. */
export interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly [member: string]: unknown;
}

export function isDelta(object: JsonObject): object is JsonObject & Delta {
  const { content, reasoning_content: reasoning } = object;
  return isOptionalText(content) && isOptionalText(reasoning);
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || value === null || typeof value === "string";
}

/** With this client's own verdict in place of the gateway's. */
export interface VerifiedUsage extends OpenAiUsage {
  readonly verified: boolean;
  readonly unverified_reason?: UnverifiedReason;
}

export interface FinalAnswer {
  readonly usage: VerifiedUsage;
  /** What the gateway says that it charged. */
  readonly usedCUMilli: number;
  /** What attempts before this one, with the same idempotency key, have paid of its cost. */
  readonly paidBeforeCUMilli?: number;
  /**
   * `usedCUMilli` reckoned here from report and pricing, less what was paid before; undefined where one is missing.
   * They should be equal.
   */
  readonly recomputedCUMilli: number | undefined;
  /** This client's own verdict over the signed report; what the gateway says of it is not read. */
  readonly verified: boolean;
  readonly unverifiedReason?: UnverifiedReason;
  readonly checks: readonly Check[];
  /** OpenAI's, of the last frame, which the enclave sealed. */
  readonly finishReason: string;
  /** The enclave's own words for a request that failed. */
  readonly error?: string;
  /** As the enclave signed it, believed or not; undefined when there is none to be read. */
  readonly report: UsageReport | undefined;
  /** The exact bytes, for whoever wants to check them again. */
  readonly signedReport: SignedReport | undefined;
  readonly pricing: StreamPricing | undefined;
}

/**
 * To be read once. Leaving the loop early sends `cancel`; what was produced until then is charged. `final` settles
 * whether or not somebody reads the deltas, and rejects with ConfidentialError when the session broke.
 */
export interface Answer extends AsyncIterable<Delta> {
  readonly final: Promise<FinalAnswer>;
}
