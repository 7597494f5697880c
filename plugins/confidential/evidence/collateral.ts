/**
 * Intel's collateral for a TDX quote, stapled to it: a verifier fetches nothing. It comes from a caching service
 * (PCCS), or from a file that the operator keeps up to date; Intel signed it, so whoever hands it over need not be
 * trusted.
 */
import { readFile } from "node:fs/promises";
import type { Clock } from "../../../src/services/clock.ts";
import { fromBase64, toHex } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { readTdxCollateral } from "../verify/tdx-collateral.ts";
import type { TdxCollateral } from "../verify/tdx-collateral.ts";

/** For a quote in base64; undefined when there is none to be had. Never rejects. */
export type CollateralSource = (
  quote: string,
  signal: AbortSignal,
) => Promise<TdxCollateral | undefined>;

/** The evidence with its collateral, if it is TDX's and there is some. */
export async function staple(
  evidence: AttestationEvidence,
  source: CollateralSource | undefined,
  signal: AbortSignal,
): Promise<AttestationEvidence> {
  if (evidence.tee_type !== "tdx" || source === undefined) return evidence;
  const collateral = await source(evidence.quote, signal);
  return collateral === undefined ? evidence : { ...evidence, collateral };
}

/** Intel publishes about once a day what holds for 30. */
const freshMs = 3_600_000;
const retryMs = 60_000;
const timeoutMs = 5_000;

/** Reads it anew for each quote: `path` is JSON with the members of `TdxCollateral`. */
export function collateralFile(path: string): CollateralSource {
  return async () => {
    try {
      return wholeCollateral(JSON.parse(await readFile(path, "utf8")));
    } catch {
      // Neither there nor JSON: the evidence goes without, and verifiers say so.
      return undefined;
    }
  };
}

/** Asks for the collateral of a quote. May reject. */
export type AskService = (url: string, quote: Uint8Array) => Promise<unknown>;

/** Asks a PCCS (or Intel's own service) at `url`, at most once an hour: it is the same for every quote of a machine. */
export function collateralService(
  url: string,
  clock: Clock,
  ask: AskService = askWithLibrary,
): CollateralSource {
  let known: TdxCollateral | undefined;
  let nextAt = -Infinity;
  return async (quote) => {
    const bytes = fromBase64(quote);
    if (clock.monotonic() < nextAt || bytes === undefined) return known;
    nextAt = clock.monotonic() + retryMs;
    const found = wholeCollateral(await inTime(ask(url, bytes), clock));
    // What came before holds until Intel's own dates end it.
    if (found === undefined) return known;
    nextAt = clock.monotonic() + freshMs;
    known = found;
    return known;
  };
}

/** Undefined when it rejects or takes too long. */
async function inTime(asked: Promise<unknown>, clock: Clock): Promise<unknown> {
  const { promise: late, resolve } = Promise.withResolvers<undefined>();
  using _limit = clock.after(timeoutMs, () => resolve(undefined));
  return await Promise.race([asked.catch(() => undefined), late]);
}

async function askWithLibrary(url: string, quote: Uint8Array): Promise<unknown> {
  const { getCollateral } = await import("@phala/dcap-qvl");
  const given = await getCollateral(url, quote);
  // The library gives bytes as lists of numbers; they travel as hex.
  const members = Object.entries(given).map(([name, value]) => [name, hexOf(value)]);
  return Object.fromEntries(members);
}

function hexOf(value: unknown): unknown {
  return Array.isArray(value) ? toHex(Uint8Array.from(value as readonly number[])) : value;
}

/** Its own members and no others; undefined when one is missing or cannot be read. */
function wholeCollateral(value: unknown): TdxCollateral | undefined {
  const read = readTdxCollateral(value);
  return typeof read === "string" ? undefined : read.text;
}
