/** The service `host.evidence`: attestation of what this deployment runs on. Nothing implements it yet. */

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
  readonly teeType: string;
  /** No hardware vouches for it. */
  readonly simulated: boolean;
}

export interface Evidence {
  /** A fresh quote that binds these 64 bytes; undefined: an image-only one. `failed`: nobody made one. */
  quote(
    reportData: Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<
    | { readonly kind: "quote"; readonly quote: Quote }
    | { readonly kind: "failed"; readonly reason: "unavailable" | "timeout" | "aborted" }
  >;
}
