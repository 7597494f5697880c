/** The data that a client keeps between sessions, to detect replays and to keep handshakes small. */
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { createSeenCounters, type SeenCounters } from "../protocol/seen-counters.ts";
import { createEvidenceVerifier, type EvidenceVerifier } from "../verify/evidence-verifier.ts";

/**
 * The highest serial number that the client has seen in the policy document of each gateway. If you keep the numbers
 * outside the process (in a file or in local storage), a rollback is also detected after a restart.
 */
export interface PolicySerials {
  /** Returns the highest serial number seen, or undefined. `gateway`: the gateway's base URL and the pinned key. */
  highest(gateway: string): number | undefined | Promise<number | undefined>;
  /** Stores a serial number, which is never below `highest`. */
  record(gateway: string, serial: number): void | Promise<void>;
}

/** Memory of one process for any number of sessions, created by `createClientMemory`. */
export interface ClientMemory {
  readonly serials: PolicySerials;
  /** Verifies evidence, and remembers the results. */
  readonly verifier: EvidenceVerifier;
  /** The counters of signed reports, to detect a report that is used twice. */
  readonly counters: SeenCounters;
  /** Keysets that have presented a quote that was created for this client. */
  readonly keysets: VerifiedKeysets;
  /** Evidence that does not have to be sent again. */
  readonly evidence: EvidenceCache;
}

export interface VerifiedKeysets {
  /** `notAfter`: seconds since 1970. */
  add(digest: string, endpoint: string, notAfter: number): void;
  has(digest: string): boolean;
  /** Returns true if a keyset of the endpoint has not expired. `now`: seconds since 1970. */
  hasAny(endpoint: string, now: number): boolean;
}

export interface EvidenceCache {
  add(endpoint: string, digest: string, evidence: unknown): void;
  get(digest: string): unknown;
  digests(endpoint: string): readonly string[];
}

/** Evidence has 5 to 40 KB, and a `hello` lists at most 64 digests. */
const maxEvidence = 32;

/** `serials`: storage for policy serial numbers; kept in memory by default. */
export function createClientMemory(serials: PolicySerials = serialsInMemory()): ClientMemory {
  return {
    serials,
    verifier: createEvidenceVerifier(),
    counters: createSeenCounters(),
    keysets: createVerifiedKeysets(),
    evidence: createEvidenceCache(),
  };
}

function serialsInMemory(): PolicySerials {
  const serials = new Map<string, number>();
  return {
    highest: (gateway) => serials.get(gateway),
    record: (gateway, serial) => void serials.set(gateway, serial),
  };
}

function createVerifiedKeysets(): VerifiedKeysets {
  const known = new Map<string, { readonly endpoint: string; readonly notAfter: number }>();
  return {
    add: (digest, endpoint, notAfter) => void known.set(digest, { endpoint, notAfter }),
    has: (digest) => known.has(digest),
    hasAny(endpoint, now) {
      for (const [digest, { notAfter }] of known) if (notAfter <= now) known.delete(digest);
      return [...known.values()].some((each) => each.endpoint === endpoint);
    },
  };
}

function createEvidenceCache(): EvidenceCache {
  const known = new BoundedMap<string, { readonly endpoint: string; readonly evidence: unknown }>(
    maxEvidence,
  );
  return {
    add: (endpoint, digest, evidence) => known.set(digest, { endpoint, evidence }),
    get: (digest) => known.get(digest)?.evidence,
    digests: (endpoint) =>
      [...known.entries()]
        .filter(([, each]) => each.endpoint === endpoint)
        .map(([digest]) => digest),
  };
}
