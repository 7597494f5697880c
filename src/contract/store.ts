/** `host.store`, `host.seal`, `host.claims` and `host.endings`. Implemented in src/store. */
import type { Awaitable } from "./phase.ts";

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
   * Answers true for the first caller with this id and false for all others until `until` (milliseconds since 1970).
   * The claim is durable when this has answered. Fails with a StoreError if it is not known who was first: it throws,
   * or its promise is rejected. The id may be used up then.
   */
  claim(id: string, until: number): Awaitable<boolean>;
}

/** Remembers what has ended before its time, for example sessions, across replicas and restarts. */
export interface Endings {
  /**
   * Ends what has this id, until `until` (milliseconds since 1970), when it would have ended anyway. It is durable when
   * this has answered. Other replicas follow within one second. Fails with a StoreError.
   */
  end(id: string, until: number): Awaitable<void>;
  /** Returns whether what has this id was ended. Throws StoreError. */
  has(id: string): boolean;
}
