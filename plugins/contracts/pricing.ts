/** Prices of tokens, for the gateway and for its clients. */

/**
 * The prices of the classes of tokens, as decimals in nano native tokens (decisions.md section 15). `cached` is the
 * price of tokens of the prompt that the worker has in its cache.
 */
export interface ClassPrices {
  readonly prompt: string;
  readonly cached: string;
  readonly completion: string;
  readonly reasoning: string;
}

/**
 * The values from which a charge was computed. Decimal strings are exact. `asOf`: when the price was read (RFC 3339).
 */
export interface Pricing {
  readonly network: string;
  /** Thousandths. */
  readonly coefficient: number;
  /** The price of each token; with `classes`, the highest of their prices. */
  readonly pricePerTokenNano: string;
  /** Missing if all tokens have one price. */
  readonly classes?: ClassPrices;
  /** The price of one native token in USD. Undefined if it is unknown; the charge is then 0. */
  readonly tokenUsdRate: string | undefined;
  readonly asOf: string;
}

/** A price that was read at one moment. */
export interface Price {
  readonly pricing: Pricing;
  /** Returns the cost of this many tokens in milli-CU. 0 if the price or the rate is missing. */
  costMilliCu(tokens: number): number;
}
