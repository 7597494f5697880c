/** Prices of tokens, for the gateway and for its clients. */

/**
 * The values from which a charge was computed. Decimal strings are exact. `asOf`: when the price was read (RFC 3339).
 */
export interface Pricing {
  readonly network: string;
  /** Thousandths. */
  readonly coefficient: number;
  readonly pricePerTokenNano: string;
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
