/** What a client remembers from session to session: it makes replays visible and handshakes small. */
import { createSeenCounters } from "../protocol/seen-counters.ts";
import type { SeenCounters } from "../protocol/seen-counters.ts";
import { createEvidenceVerifier } from "../verify/remembered.ts";
import type { EvidenceVerifier } from "../verify/remembered.ts";

/**
 * The highest serial that a client has seen of each gateway's policy document. Kept beyond the process (a file, local
 * storage) it also stops a rollback across restarts.
 */
export interface PolicySerials {
  /** `gateway`: its origin and the pinned key. Undefined: none seen. */
  highest(gateway: string): number | undefined | Promise<number | undefined>;
  /** Never called with less than `highest`. */
  record(gateway: string, serial: number): void | Promise<void>;
}

/** Of one process, for any number of sessions; made by `createClientMemory`. */
export interface ClientMemory {
  readonly serials: PolicySerials;
  readonly verifier: EvidenceVerifier;
  readonly counters: SeenCounters;
  /** Keysets that have shown a quote made for us. */
  readonly keysets: MetKeysets;
  readonly evidence: KnownEvidence;
}

export interface MetKeysets {
  add(digest: string, endpoint: string, notAfter: number): void;
  has(digest: string): boolean;
  /** Whether one of that endpoint still holds. `now`: seconds since 1970. */
  hasAny(endpoint: string, now: number): boolean;
}

/** Evidence that passed, by endpoint and digest. */
export interface KnownEvidence {
  add(endpoint: string, digest: string, evidence: unknown): void;
  get(digest: string): unknown;
  digests(endpoint: string): readonly string[];
}

/** Evidence is 5 to 40 KB; a `hello` names at most 64. */
const maxEvidence = 32;

export function createClientMemory(serials: PolicySerials = serialsInMemory()): ClientMemory {
  return {
    serials,
    verifier: createEvidenceVerifier(),
    counters: createSeenCounters(),
    keysets: createMetKeysets(),
    evidence: createKnownEvidence(),
  };
}

function serialsInMemory(): PolicySerials {
  const serials = new Map<string, number>();
  return {
    highest: (gateway) => serials.get(gateway),
    record: (gateway, serial) => void serials.set(gateway, serial),
  };
}

function createMetKeysets(): MetKeysets {
  const met = new Map<string, { readonly endpoint: string; readonly notAfter: number }>();
  return {
    add: (digest, endpoint, notAfter) => void met.set(digest, { endpoint, notAfter }),
    has: (digest) => met.has(digest),
    hasAny(endpoint, now) {
      for (const [digest, { notAfter }] of met) if (notAfter <= now) met.delete(digest);
      return [...met.values()].some((each) => each.endpoint === endpoint);
    },
  };
}

function createKnownEvidence(): KnownEvidence {
  const known = new Map<string, { readonly endpoint: string; readonly evidence: unknown }>();
  return {
    add(endpoint, digest, evidence) {
      known.delete(digest);
      known.set(digest, { endpoint, evidence });
      const oldest = known.keys().next().value;
      if (known.size > maxEvidence && oldest !== undefined) known.delete(oldest);
    },
    get: (digest) => known.get(digest)?.evidence,
    digests: (endpoint) =>
      [...known].filter(([, each]) => each.endpoint === endpoint).map(([digest]) => digest),
  };
}
