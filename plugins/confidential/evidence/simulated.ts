/**
 * Evidence without a TEE, for development: a TDX quote and collateral whose every signature holds, under a root of its
 * own that says "SIMULATED - NOT A TEE". It proves nothing, since whoever has the seed can make it; a verifier accepts
 * it only from a caller who allows it and names the root.
 */
import { toBase64 } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { simulatedMarker } from "../verify/simulation.ts";
import { readTdxQuote, tdxImageHash } from "../verify/tdx-quote.ts";
import { writeCollateral } from "./simulated-collateral.ts";
import type { SimulatedUpkeep } from "./simulated-collateral.ts";
import { createPki } from "./simulated-pki.ts";
import { writeQuote } from "./simulated-quote.ts";

export interface SimulatedPlatform {
  /** The test root, DER in base64: what a verifier's `simulatedRoots` must name. */
  readonly root: string;
  /** Lower-case hex of SHA-256. */
  readonly imageHash: string;
  /** Evidence for 64 bytes of report data. `now`: milliseconds since 1970. */
  evidence(reportData: Uint8Array, now: number, state?: SimulatedState): AttestationEvidence;
}

/** What differs from a platform in good order. */
export interface SimulatedState extends Partial<SimulatedUpkeep> {
  /** The TD can be debugged. */
  readonly isDebug?: boolean;
  /** Without the mark of a simulation. */
  readonly isUnmarked?: boolean;
  /** Of the quote; 4 unless given. */
  readonly version?: 4 | 5;
}

const seedBytes = 32;
const lifetimeMs = 30 * 24 * 3_600_000;

/**
 * `seed`: 32 bytes; the same seed gives the same root. `image`: stands for the measured code, another name is another
 * image hash.
 */
export async function createSimulatedPlatform(
  seed: Uint8Array,
  image: string = "sluice",
): Promise<SimulatedPlatform> {
  if (seed.length !== seedBytes) throw new RangeError(`the seed must have ${seedBytes} bytes`);
  const pki = createPki(seed);
  const marker = await simulatedMarker();
  const write = (reportData: Uint8Array, state: SimulatedState): Uint8Array<ArrayBuffer> => {
    const { isDebug = false, isUnmarked = false, version = 4 } = state;
    const rtmr3 = isUnmarked ? new Uint8Array(48) : marker;
    return writeQuote(pki, { reportData, rtmr3, image, isDebug, version });
  };
  const sample = readTdxQuote(write(new Uint8Array(64), {}));
  if (sample === undefined) throw new Error("the simulated quote cannot be read");
  return {
    root: toBase64(pki.root.certificate),
    imageHash: await tdxImageHash(sample.body),
    evidence(reportData, now, state = {}) {
      if (reportData.length !== 64) throw new RangeError("report data has 64 bytes");
      const upkeep: SimulatedUpkeep = {
        // A little in the past, for a verifier whose clock is behind.
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
      const collateral = writeCollateral(pki, upkeep);
      return { tee_type: "simulated", quote, collateral, simulated: true };
    },
  };
}
