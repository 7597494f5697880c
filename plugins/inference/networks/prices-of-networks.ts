/** The prices in the sections `networks` and `rate`, which must be equal on all gateways that share credit. */

interface Entry {
  readonly price_per_token_nano?: unknown;
  readonly rate?: unknown;
}

/** Prices must be equal on all gateways that share credit. URLs may differ: a network can have several addresses. */
export function pricesOfNetworks({
  networks,
  rate,
}: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  // The section has been validated.
  const entries = (networks ?? {}) as Readonly<Record<string, Entry | null>>;
  const prices = Object.entries(entries).map(([name, entry]) => [
    name,
    { price: entry?.price_per_token_nano, rate: entry?.rate },
  ]);
  return { networks: Object.fromEntries(prices) as object, rate };
}
