/** What the gateway remembers of enclaves, whichever network they belong to: one for the process. */
import { EvidenceCache } from "../relay/evidence-cache.ts";
import { createSeenCounters, type SeenCounters } from "../protocol/seen-counters.ts";
import { createEvidenceVerifier, type EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";

export interface EnclaveState {
  readonly verifier: EvidenceVerifier;
  readonly evidenceCache: EvidenceCache;
  readonly counters: SeenCounters;
}

export function createEnclaveState(): EnclaveState {
  return {
    verifier: createEvidenceVerifier({ entries: 512 }),
    evidenceCache: new EvidenceCache(),
    counters: createSeenCounters(),
  };
}

/** With what a network adds. */
export interface EnclaveDeps extends EnclaveState {
  readonly clock: Clock;
  readonly log: Log;
  /** A worker may be offered now, or no longer. */
  readonly changed: () => void;
}
