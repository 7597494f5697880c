/**
 * The service `attestation`: attests the machine that this deployment runs on. Implemented in
 * plugins/confidential/attestation.
 */

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    attestation: Attestation;
  }
}

export interface Attestation {
  /**
   * Returns the evidence from a source. Throws if the source must not be used here (a simulation in prod), so that the
   * plugin does not start. Only the first request for a quote shows whether the machine has the platform.
   */
  evidence(source: EvidenceSource): Evidence;
  /** Returns the test root of simulated evidence, DER in base64. Undefined if a simulation must not be used here. */
  simulatedRoot(): Promise<string | undefined>;
}

/** `auto` uses the platform of this machine. `simulated` is for development and proves nothing. */
export type EvidenceSource = "auto" | "tdx" | "sev-snp" | "dstack" | "simulated";

export interface Quote {
  /** The quote in base64. */
  readonly quote: string;
  /** SHA-256 of the image, in hex. */
  readonly imageHash: string;
  /** The 64 bytes that the quote contains, in hex. */
  readonly reportData: string;
  /** `raw` if the quote contains the requested bytes themselves, `hashed` if it contains a hash of them. */
  readonly binding: "raw" | "hashed";
  /** The bytes whose SHA-512 is `reportData`, in hex. Present if and only if `binding` is `hashed`. */
  readonly preimage?: string;
  readonly teeType: string;
  /** True if no hardware backs the quote. */
  readonly simulated: boolean;
}

/** `reserved`: the requested bytes could be mistaken for those of a session of the encrypted stream. */
export type QuoteFailure = "unavailable" | "timeout" | "aborted" | "reserved";

export interface Evidence {
  /**
   * Requests a fresh quote that contains these 64 bytes, `raw` or `hashed`. If `reportData` is undefined, the quote is
   * for the image only and contains the hash of 32 random bytes.
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
