/** `host.store`, `host.seal` and `host.claims`. Implemented in src/store. */

/** The embedded store. Only this gateway uses the folder while it runs. */
export interface Store {
  /** Absolute path of the data folder. Each service has its own files in it. */
  readonly folder: string;
}

/**
 * Makes tokens that only this deployment can make. They are signed with GATEWAY_SECRET, not encrypted: clients can read
 * their content. They are valid on every replica.
 */
export interface Seal {
  /**
   * Returns a token with this value. `purpose`: separates tokens of different uses. `expiresAt`: milliseconds since
   * 1970.
   */
  seal(purpose: string, value: object, expiresAt: number): string;
  /**
   * Returns the value of a token. Undefined if the token is forged or was made for another purpose. The caller must
   * check `expiresAt`.
   */
  open(
    purpose: string,
    token: string,
  ): { readonly value: unknown; readonly expiresAt: number } | undefined;
  /**
   * Returns a key of 32 bytes that only this deployment has, the same on every replica. `purpose`: a text without line
   * breaks that separates keys of different uses.
   */
  key(purpose: string): Buffer;
}

/** Remembers things that may happen only once, across replicas and restarts. */
export interface Claims {
  /**
   * Returns true for the first caller with this id and false for all others until `until` (milliseconds since 1970).
   * The claim is on disk when this returns.
   */
  claim(id: string, until: number): boolean;
  /** Returns whether this id has been claimed. */
  has(id: string): boolean;
}
