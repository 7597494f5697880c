/**
 * The service `host.evidence`: attestation of what this deployment runs on. Implemented in src/confidential/evidence.
 */

/**
 * Where evidence comes from. `auto`: whatever this machine has; `simulated`: nowhere, it is for development and proves
 * nothing.
 */
export type EvidenceSource = "auto" | "tdx" | "sev-snp" | "dstack" | "simulated";

/** An attestation quote and what it vouches for. */
export interface Quote {
  /** Base64. */
  readonly quote: string;
  /** Hex of a SHA-256. */
  readonly imageHash: string;
  /** Hex of the 64 bytes that the quote carries. */
  readonly reportData: string;
  /** Whether the quote carries the bytes asked for as they are, or a hash of them. */
  readonly binding: "raw" | "hashed";
  /** Hex of what was hashed: its SHA-512 is `reportData`. Present exactly when `binding` is `hashed`. */
  readonly preimage?: string;
  readonly teeType: string;
  /** No hardware vouches for it. */
  readonly simulated: boolean;
}

/** `reserved`: the bytes asked for would pass for those of a session of the encrypted stream. */
export type QuoteFailure = "unavailable" | "timeout" | "aborted" | "reserved";

export interface Evidence {
  /**
   * A fresh quote that binds these 64 bytes, as they are or `hashed`; undefined: an image-only one, of 32 random bytes
   * that are hashed. `failed`: nobody made one.
   */
  quote(
    reportData: Uint8Array | undefined,
    signal: AbortSignal,
    binding?: Quote["binding"],
  ): Promise<
    | { readonly kind: "quote"; readonly quote: Quote }
    | { readonly kind: "failed"; readonly reason: QuoteFailure }
  >;
}
