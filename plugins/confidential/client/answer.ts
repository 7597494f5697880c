import type { JsonObject } from "../protocol/strict-json.ts";
import type { SignedReport, UnverifiedReason } from "../protocol/verify-usage-report.ts";
import type { UsageReport } from "../protocol/usage-report.ts";
import type { OpenAiUsage } from "../protocol/text-frames.ts";
import type { Check } from "../verify/report.ts";
import type { StreamPricing } from "./cost.ts";

/** The parameters of OpenAI's chat completions. The session sets `model` and `stream`. */
export interface ChatRequest {
  readonly messages: readonly unknown[];
  /** Maximum number of completion tokens: at most the session's `maxOutputTokens`, which is also the default. */
  readonly max_tokens?: number;
  readonly [parameter: string]: unknown;
}

/** OpenAI's `delta`, as the enclave encrypted it. Only the members with a type here have been validated. */
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

/** Token counts in OpenAI's form, with this client's own verdict instead of the gateway's. */
export interface VerifiedUsage extends OpenAiUsage {
  readonly verified: boolean;
  readonly unverified_reason?: UnverifiedReason;
}

/** The end of an answer. */
export interface FinalAnswer {
  readonly usage: VerifiedUsage;
  /** The amount that the gateway charged, according to the gateway. */
  readonly usedCUMilli: number;
  /** The part of the cost that was charged for earlier attempts with the same idempotency key. */
  readonly paidBeforeCUMilli?: number;
  /**
   * The amount that this client computes from the report and the pricing, minus `paidBeforeCUMilli`. It should equal
   * `usedCUMilli`. Undefined if the report or the pricing is missing.
   */
  readonly recomputedCUMilli: number | undefined;
  /** True if this client has verified the signed report. The gateway's own verdict is ignored. */
  readonly verified: boolean;
  /** Undefined if the report is verified. */
  readonly unverifiedReason?: UnverifiedReason;
  /** The checks of the signed report, in order. */
  readonly checks: readonly Check[];
  /** OpenAI's `finish_reason`, from the last frame, which the enclave encrypted. */
  readonly finishReason: string;
  /** The enclave's error message, if the request failed. */
  readonly error?: string;
  /** The code of that error, such as INVALID_REQUEST. */
  readonly errorCode?: string;
  /**
   * The context of the model and the tokens of the request, if it is too long and the enclave knows them. `prompt`: its
   * tokens, if the prompt fits without the answer.
   */
  readonly contextExceeded?:
    | {
        readonly limit: number | undefined;
        readonly requested: number | undefined;
        readonly prompt?: number;
      }
    | undefined;
  /** The report that the enclave signed, whether or not it is verified. Undefined if it is missing or unreadable. */
  readonly report: UsageReport | undefined;
  /** The exact bytes of the report and its signature, for a later verification. */
  readonly signedReport: SignedReport | undefined;
  /** The pricing that the gateway used for the charge. Undefined if it is missing or unreadable. */
  readonly pricing: StreamPricing | undefined;
}

/**
 * The answer to a request: an async iterable of deltas, which can be read once. Leaving the loop early cancels the
 * request; the part that was produced until then is charged. `final` settles whether or not the deltas are read, and
 * rejects with a ConfidentialError if the session fails.
 */
export interface Answer extends AsyncIterable<Delta> {
  readonly final: Promise<FinalAnswer>;
}
