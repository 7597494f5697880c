/** The services `host.seal` and `host.claims`: implemented in src/store. */

/**
 * Tokens that only this deployment can make: self-describing, signed with GATEWAY_SECRET, valid on every replica. They
 * are not encrypted: anyone who has a token can read the value in it.
 */
export interface Seal {
  /** `purpose` keeps tokens of one use from being taken for another's. `expiresAt`: milliseconds since 1970. */
  seal(purpose: string, value: object, expiresAt: number): string;
  /**
   * The value sealed for that purpose; undefined when forged or sealed for another. Expiry is the caller's to judge.
   */
  open(
    purpose: string,
    token: string,
  ): { readonly value: unknown; readonly expiresAt: number } | undefined;
}

/** Things that may happen once, whoever asks: kept in the store, across replicas and restarts. */
export interface Claims {
  /**
   * True for the first caller of this id; remembered until `until` (milliseconds since 1970). Durable when it returns.
   */
  claim(id: string, until: number): boolean;
  /** Whether it was claimed. */
  has(id: string): boolean;
}
