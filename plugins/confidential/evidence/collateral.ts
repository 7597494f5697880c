/**
 * Intel's collateral for a TDX quote, added to the evidence so that verifiers do not have to fetch it. It comes from a
 * caching service (PCCS), or from a file that the operator keeps up to date. Intel signed it, so the source does not
 * have to be trusted.
 */
import { readFile } from "node:fs/promises";
import type { Clock } from "sluice-gateway/plugin";
import { fromBase64, toHex } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { readTdxCollateral, type TdxCollateral } from "../verify/tdx-collateral.ts";
import { HourlyValue } from "./hourly-value.ts";

/** `quote`: in base64. Undefined if the collateral is not available. Never rejects. */
export type CollateralSource = (
  quote: string,
  signal: AbortSignal,
) => Promise<TdxCollateral | undefined>;

export async function stapleCollateral(
  evidence: AttestationEvidence,
  source: CollateralSource | undefined,
  signal: AbortSignal,
): Promise<AttestationEvidence> {
  if (evidence.tee_type !== "tdx" || source === undefined) return evidence;
  const collateral = await source(evidence.quote, signal);
  return collateral === undefined ? evidence : { ...evidence, collateral };
}

/** Reads the file again for each quote. `path`: JSON file with the members of `TdxCollateral`. */
export function collateralFile(path: string): CollateralSource {
  return async () => {
    try {
      return parseCollateral(JSON.parse(await readFile(path, "utf8")));
    } catch {
      // The evidence is then sent without collateral, and verifiers report that.
      return undefined;
    }
  };
}

export type FetchCollateral = (url: string, quote: Uint8Array) => Promise<unknown>;

/**
 * Fetches from a PCCS (or Intel's own service) at `url`, at most once per hour. All quotes of a machine have the same
 * collateral.
 */
export function collateralService(
  url: string,
  clock: Clock,
  fetchCollateral: FetchCollateral = fetchWithLibrary,
): CollateralSource {
  const known = new HourlyValue<TdxCollateral>(clock);
  return async (quote, signal) => {
    const bytes = fromBase64(quote);
    if (bytes === undefined) return undefined;
    return known.get(async () => parseCollateral(await fetchCollateral(url, bytes)), signal);
  };
}

async function fetchWithLibrary(url: string, quote: Uint8Array): Promise<unknown> {
  const { getCollateral } = await import("@phala/dcap-qvl");
  const given = await getCollateral(url, quote);
  // The library returns bytes as lists of numbers; the wire format is hex.
  const members = Object.entries(given).map(([name, value]) => [name, hexOf(value)]);
  return Object.fromEntries(members);
}

function hexOf(value: unknown): unknown {
  return Array.isArray(value) ? toHex(Uint8Array.from(value as readonly number[])) : value;
}

/** Undefined if a member is missing or cannot be read. */
function parseCollateral(value: unknown): TdxCollateral | undefined {
  const read = readTdxCollateral(value);
  return typeof read === "string" ? undefined : read.text;
}
