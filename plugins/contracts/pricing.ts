/**
 * The classes of tokens (decisions.md section 15). `prompt` and `cached`: tokens of the prompt that the worker has to
 * read, and those in its cache. `completion` and `reasoning`: tokens of the answer and of the thoughts before it.
 */
export interface ClassPrices {
  readonly prompt: string;
  readonly cached: string;
  readonly completion: string;
  readonly reasoning: string;
}

/** Exact decimals in nano native tokens. */
export interface TokenPrices {
  /** The price of each token; with `classes`, the highest of their prices. */
  readonly pricePerTokenNano: string;
  /** Undefined if all tokens have one price. */
  readonly classes?: ClassPrices | undefined;
}

/** The values of a charge. Decimal strings are exact. `asOf`: when the price was read (RFC 3339). */
export interface Pricing extends TokenPrices {
  readonly network: string;
  /** Thousandths. */
  readonly coefficient: number;
  /** The price of one native token in USD. Undefined if it is unknown; the charge is then 0. */
  readonly tokenUsdRate: string | undefined;
  readonly asOf: string;
}

/**
 * Tokens of one answer. As with OpenAI, `promptTokens` includes the cached tokens, and `completionTokens` includes the
 * reasoning tokens. Each of these is undefined if it is not known.
 */
export interface TokenCounts {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens?: number | undefined;
  readonly reasoningTokens?: number | undefined;
}

/** A price that was read at one moment. Costs are in milli-CU, and 0 if the price or the rate is missing. */
export interface Price {
  readonly pricing: Pricing;
  /** A part that is larger than its whole counts as 0. */
  costMilliCu(tokens: TokenCounts): number;
  /** Returns the maximum cost of so many tokens of any class. */
  maxMilliCu(promptTokens: number, completionTokens: number): number;
}
