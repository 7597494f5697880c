/** The service `host.confidential`, the encrypted stream as a gateway serves it: implemented in src/confidential/relay. */
import type { Connection } from "../plugin.ts";
import type { EvidenceSource } from "./evidence.ts";
import type { ChargeLine } from "./meter.ts";
import type { Pricing } from "./networks.ts";

/** Credit reserved for one request of a session. Exactly one of `settle` and `release` ends it. */
export interface StreamCharge {
  readonly reservedMilli: number;
  /** Resolves when the charge is on disk, to false when it cannot be. */
  settle(line: Omit<ChargeLine, "surface">): Promise<boolean>;
  release(): void;
}

/** Who a session is served to. */
export interface StreamCustomer {
  readonly keyId: string;
  readonly workspaceId: string;
  /** The one model that it may ask, bound by a ticket. */
  readonly model: string | undefined;
  /** Whether its key still opens anything. What is reserved from then on goes by what the key may use now. */
  admitted(): boolean;
  /** `refused`: its credit does not reach. `unavailable`: nothing can be charged now. */
  reserve(costMilli: number): StreamCharge | "refused" | "unavailable";
}

/** What an enclave signed for one request, and what the gateway made of it (confidential-stream.md section 5). */
export interface Receipt {
  /** base64url of 16 bytes. */
  readonly session: string;
  readonly rid: number;
  readonly keyId: string;
  readonly workspaceId: string;
  /** base64url of the exact bytes that are signed, and of the signature. */
  readonly report: string;
  readonly sig: string;
  /** `sha256:<hex>`. */
  readonly evidenceDigest: string;
  readonly pricing: Pricing;
  readonly usedCUMilli: number;
  /** What attempts before it, under the same idempotency key, have paid of its cost; absent: nothing. */
  readonly paidBeforeCUMilli?: number;
  readonly verified: boolean;
  readonly unverifiedReason: string | undefined;
}

/** How a surface wants its sessions served. */
export interface StreamOptions {
  /** Who attests the gateway's own enclave, for networks that have none; undefined: nobody, and it ends no encryption. */
  readonly evidence: EvidenceSource | undefined;
  /** Open at once, those that began with an earlier configuration included. */
  readonly sessionsPerKey: number;
  /** Memory for requests that the gateway decrypts itself and that have not arrived completely. */
  readonly unfinished: { readonly maxBytes: number; readonly maxBytesPerOwner: number };
}

export interface Stream {
  /** Resolves when it is known which of the gateway's own enclaves have their evidence. */
  readonly ready: Promise<void>;
  /** A place for one more session of the key, until it is disposed of; undefined: it has as many as it may have. */
  admit(keyId: string): Disposable | undefined;
  /** Serves one session, from its `hello` to the end of the connection and of what it owes. Never rejects. */
  serve(connection: Connection, customer: StreamCustomer): Promise<void>;
  /** Running sessions go on. */
  close(): void;
}

/** A policy and its signature (confidential-stream.md section 5), each base64url. */
export interface SignedPolicy {
  readonly policy: string;
  readonly sig: string;
  readonly key: string;
}

export interface Confidential {
  stream(options: StreamOptions): Stream;
  /** Evidence that a session has shown, as parsed JSON, by `sha256:<hex>`; undefined: not seen, or too long ago. */
  evidence(digest: string): unknown;
  /** `session`: base64url of 16 bytes. */
  receipt(session: string, rid: number): Receipt | undefined;
  /** What may run where, as pipeline.yaml has it, signed by this deployment. */
  policy(): Promise<SignedPolicy>;
  /** A document that was signed elsewhere, once its signature has been checked; else what is wrong with it. */
  readPolicy(document: unknown): Promise<SignedPolicy | string>;
}
