/**
 * The service `confidential-relay`: the gateway's part of the encrypted stream. Implemented in
 * plugins/confidential/confidential-relay.
 */
import type { Awaitable, Connection } from "sluice-gateway/plugin";
import type { EvidenceSource } from "./evidence.ts";
import type { ChargeLine } from "./meter.ts";
import type { Pricing } from "./pricing.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "confidential-relay": Confidential;
  }
}

/** Credit that is reserved for one request of a session. Call exactly one of `settle` and `release`. */
export interface StreamCharge {
  readonly reservedMilliCu: number;
  /** Resolves to true when the charge has been written to disk, or to false if it cannot be written. */
  settle(line: Omit<ChargeLine, "surface">): Promise<boolean>;
  release(): void;
}

/** `unavailable`: the store of the keys cannot be queried. */
export type Admission = "admitted" | "refused" | "unavailable";

export interface StreamCustomer {
  readonly keyId: string;
  readonly workspaceId: string;
  /** The only model that the session may use, as bound by a ticket. Undefined for all models. */
  readonly model: string | undefined;
  /** Returns whether the key is still accepted. Later reservations use the current limits of the key. Never fails. */
  admitted(): Awaitable<Admission>;
  /**
   * Records a handshake or a request that failed, for logs and metrics. `code`: that of the error frame, or of the
   * enclave's failure. `model`: undefined before the handshake is complete.
   */
  failed(code: string, model: string | undefined): void;
  /** `refused`: insufficient credit. `unavailable`: charges cannot be written now. */
  reserve(costMilliCu: number): Awaitable<StreamCharge | "refused" | "unavailable">;
}

/** The usage report that an enclave signed for one request, and its charge (confidential-stream.md section 5). */
export interface Receipt {
  /** base64url of 16 bytes. */
  readonly session: string;
  readonly rid: number;
  readonly keyId: string;
  readonly workspaceId: string;
  /** The exact bytes that are signed in `sig`, both in base64url. */
  readonly report: string;
  readonly sig: string;
  /** `sha256:<hex>`. */
  readonly evidenceDigest: string;
  readonly pricing: Pricing;
  readonly usedCUMilli: number;
  /** The part of the cost that earlier attempts with the same idempotency key have paid. Missing if there is none. */
  readonly paidBeforeCUMilli?: number;
  readonly verified: boolean;
  readonly unverifiedReason: string | undefined;
}

export interface StreamOptions {
  /**
   * Evidence for the gateway's own enclave, which serves networks without one. Without it, the gateway does not
   * decrypt sessions itself.
   */
  readonly evidence: EvidenceSource | undefined;
  /** Maximum number of open sessions per key, including sessions that began under an earlier configuration. */
  readonly sessionsPerKey: number;
  /** Memory for incomplete requests that the gateway decrypts itself. */
  readonly unfinished: { readonly maxBytes: number; readonly maxBytesPerOwner: number };
}

export interface Stream {
  /** Resolves when each of the gateway's own enclaves has its evidence or has failed to get it. */
  readonly ready: Promise<void>;
  /** Dispose of the result when the session ends. Undefined if the key has the maximum number of sessions. */
  admit(keyId: string): Disposable | undefined;
  /** Serves one session until the connection has ended and its charges are settled. Never rejects. */
  serve(connection: Connection, customer: StreamCustomer): Promise<void>;
  /** Running sessions continue. */
  close(): void;
}

/** A policy, its signature and the public key (confidential-stream.md section 5), each in base64url. */
export interface SignedPolicy {
  readonly policy: string;
  readonly sig: string;
  readonly key: string;
}

export interface Confidential {
  stream(options: StreamOptions): Stream;
  /**
   * Returns the evidence of an earlier session as parsed JSON. `digest`: `sha256:<hex>`. Undefined if no session has
   * presented it, or if that was too long ago.
   */
  evidence(digest: string): unknown;
  /** Resolves to the receipt of one request. `session`: base64url of 16 bytes. Rejects if the store cannot be used. */
  receipt(session: string, rid: number): Promise<Receipt | undefined>;
  /** Returns the policy of pipeline.yaml (the images that each network may run), signed by this deployment. */
  policy(): Promise<SignedPolicy>;
  /**
   * Checks a policy document that was signed elsewhere against the key that it contains. Resolves to the reason as text
   * if it is not valid.
   */
  readPolicy(document: unknown): Promise<SignedPolicy | string>;
}
