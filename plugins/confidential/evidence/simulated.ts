/**
 * Evidence without a TEE, for development: a TDX quote and collateral with valid signatures, under a root named
 * "SIMULATED - NOT A TEE". The evidence proves nothing, because anyone who has the seed can create it. A verifier
 * accepts it only if its caller allows simulated evidence and lists the root.
 */
import { toBase64 } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { simulatedMarker } from "../verify/simulation.ts";
import { readTdxQuote, tdxImageHash } from "../verify/tdx-quote.ts";
import { writeCollateral, type SimulatedCollateralState } from "./simulated-collateral.ts";
import { createPki } from "./simulated-pki.ts";
import { writeQuote } from "./simulated-quote.ts";

export interface SimulatedPlatform {
  /** The test root, DER in base64. A verifier's `simulatedRoots` must contain it. */
  readonly root: string;
  readonly imageHash: string;
  /** `reportData`: 64 bytes. `now`: milliseconds since 1970. */
  evidence(reportData: Uint8Array, now: number, state?: SimulatedState): AttestationEvidence;
}

export interface SimulatedState extends Partial<SimulatedCollateralState> {
  readonly isDebug?: boolean;
  readonly isUnmarked?: boolean;
  /** Version of the quote. Default: 4. */
  readonly version?: 4 | 5;
}

const seedBytes = 32;
const lifetimeMs = 30 * 24 * 3_600_000;

/** `seed`: 32 bytes; the same seed gives the same root. */
export async function createSimulatedPlatform(seed: Uint8Array): Promise<SimulatedPlatform> {
  if (seed.length !== seedBytes) throw new RangeError(`the seed must have ${seedBytes} bytes`);
  const pki = createPki(seed);
  const marker = await simulatedMarker();
  const write = (reportData: Uint8Array, state: SimulatedState): Uint8Array<ArrayBuffer> => {
    const { isDebug = false, isUnmarked = false, version = 4 } = state;
    const rtmr3 = isUnmarked ? new Uint8Array(48) : marker;
    return writeQuote(pki, { reportData, rtmr3, isDebug, version });
  };
  const sample = readTdxQuote(write(new Uint8Array(64), {}));
  if (sample === undefined) throw new Error("the simulated quote cannot be read");
  return {
    root: toBase64(pki.root.certificate),
    imageHash: await tdxImageHash(sample.body),
    evidence(reportData, now, state = {}) {
      if (reportData.length !== 64) {
        throw new RangeError(`expected report data of 64 bytes, got ${reportData.length}`);
      }
      const collateralState: SimulatedCollateralState = {
        // One hour in the past, for verifiers whose clock is slow.
        issuedAt: now - 3_600_000,
        lifetimeMs,
        tcbStatus: "UpToDate",
        advisories: [],
        moduleStatus: "UpToDate",
        tcbEvaluation: 20,
        revoked: [],
        ...state,
      };
      const quote = toBase64(write(reportData, state));
      const collateral = writeCollateral(pki, collateralState);
      return { tee_type: "simulated", quote, collateral, simulated: true };
    },
  };
}
