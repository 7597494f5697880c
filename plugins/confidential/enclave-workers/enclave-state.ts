/** The state about enclaves that all networks of the process share. */
import type { Clock, Log } from "sluice-gateway/plugin";
import { EvidenceCache } from "../confidential-relay/evidence-cache.ts";
import { createSeenCounters, type SeenCounters } from "../protocol/seen-counters.ts";
import type { EvidenceVerifier } from "../verify/evidence-verifier.ts";

export interface EnclaveState {
  readonly verifier: EvidenceVerifier;
  readonly evidenceCache: EvidenceCache;
  readonly counters: SeenCounters;
}

export function createEnclaveState(): EnclaveState {
  return {
    verifier: openAtFirstUse(),
    evidenceCache: new EvidenceCache(),
    counters: createSeenCounters(),
  };
}

/** Loads the code of evidence and certificates with the first enclave. */
function openAtFirstUse(): EvidenceVerifier {
  let opening: Promise<EvidenceVerifier> | undefined;
  return {
    async verify(...given) {
      opening ??= import("../verify/evidence-verifier.ts").then(({ createEvidenceVerifier }) =>
        createEvidenceVerifier(512),
      );
      return (await opening).verify(...given);
    },
  };
}

export interface EnclaveDeps extends EnclaveState {
  readonly clock: Clock;
  readonly log: Log;
  /** Called when a worker becomes available or unavailable. */
  readonly changed: () => void;
}
