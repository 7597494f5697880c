/** The ways to workers that end an encrypted stream in an enclave of theirs. */
import type { NetworkConfig } from "../../config/config.ts";
import { EvidenceMemory } from "../../confidential/relay/evidence-memory.ts";
import { createSeenCounters, type SeenCounters } from "../../confidential/seen-counters.ts";
import {
  createEvidenceVerifier,
  type EvidenceVerifier,
} from "../../confidential/verify/remembered.ts";
import type { Clock } from "../../services/clock.ts";
import type { Log } from "../../services/log.ts";
import type { Transport } from "../route.ts";
import type { ListedWorker } from "../status.ts";
import { policyOf, type PolicyFor } from "./policy.ts";
import { EnclaveRoute } from "./route.ts";

/** What the gateway remembers of enclaves, whichever network they belong to: one for the process. */
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

export interface EnclaveParts extends EnclaveRecords {
  readonly clock: Clock;
  readonly log: Log;
  /** A worker may be offered now, or no longer. */
  readonly changed: () => void;
}

export class EnclaveTransport implements Transport {
  readonly #config: NetworkConfig;
  readonly #policyFor: PolicyFor;
  readonly #parts: EnclaveParts;

  constructor(config: NetworkConfig, parts: EnclaveParts) {
    // The configuration has it for every network of this kind.
    if (config.evidence === undefined) throw new TypeError(`${config.name} has no evidence policy`);
    this.#config = config;
    this.#policyFor = policyOf(config.evidence);
    this.#parts = parts;
  }

  routeTo(listed: ListedWorker): EnclaveRoute {
    return new EnclaveRoute(this.#config, listed, this.#policyFor, this.#parts);
  }

  /** Sessions are their callers' to end. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}
