/** What the gateway remembers of enclaves, whichever network they belong to: one for the process. */
import { EvidenceMemory } from "../relay/evidence-memory.ts";
import { createSeenCounters, type SeenCounters } from "../protocol/seen-counters.ts";
import { createEvidenceVerifier, type EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";

export interface EnclaveRecords {
  readonly verifier: EvidenceVerifier;
  readonly memory: EvidenceMemory;
  readonly counters: SeenCounters;
}

export function createEnclaveRecords(): EnclaveRecords {
  return {
    verifier: createEvidenceVerifier({ entries: 512 }),
    memory: new EvidenceMemory(),
    counters: createSeenCounters(),
  };
}

/** With what a network adds. */
export interface EnclaveParts extends EnclaveRecords {
  readonly clock: Clock;
  readonly log: Log;
  /** A worker may be offered now, or no longer. */
  readonly changed: () => void;
}
