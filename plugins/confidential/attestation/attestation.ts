/**
 * The service `attestation`: one provider per source, opened at the first use. This measured code restricts the report
 * data that callers can bind into a quote, so that a quote cannot be mistaken for one of a session's keyset.
 */
import { createHash, randomBytes } from "node:crypto";
import { resolve } from "node:path";
import type { Host, Log } from "sluice-gateway/plugin";
import type {
  Attestation,
  Evidence,
  EvidenceSource,
  Quote,
  QuoteFailure,
} from "sluice-gateway/services";
import { isFault, type Fault } from "../protocol/fault.ts";
import { label } from "../protocol/encoding.ts";
import { isReserved } from "../protocol/report-data.ts";
import { joinBytes, sameBytes, toHex } from "../verify/binary-text.ts";
import { collateralFile, collateralService } from "../evidence/collateral.ts";
import { openProvider, type ProviderDeps } from "../evidence/open-provider.ts";
import { readContent, whenAborted, type EvidenceProvider } from "../evidence/provider.ts";
import { revocationListService } from "../evidence/revocation-list.ts";
import { simulatedRefusal } from "../evidence/simulated-allowed.ts";

declare module "sluice-gateway/services" {
  interface Attestation {
    /** Provider for keysets (`createEnclaveIdentity`). After a fault, the next call tries again. */
    provider(source: EvidenceSource): Promise<EvidenceProvider | Fault>;
  }
}

/** The section `collateral` after validation. */
export interface Options {
  readonly collateral: { readonly pccs?: string; readonly file?: string; readonly kds?: string };
}

type Quoted = Awaited<ReturnType<Evidence["quote"]>>;

/** confidential-stream.md, 1.4. */
const hashedLabel = label("platform-quote/1");
const timeoutMs = 20_000;

export function openAttestation(
  { collateral }: Options,
  { clock, log, folder }: Host,
  mayUseSimulation: boolean,
): Attestation {
  const { file, pccs, kds } = collateral;
  const service = pccs === undefined ? undefined : collateralService(pccs, clock);
  return createAttestation({
    clock,
    log,
    simulatedAllowed: mayUseSimulation,
    collateral: file === undefined ? service : collateralFile(resolve(folder, file)),
    revocationLists: kds === undefined ? undefined : revocationListService(kds, clock),
  });
}

export function createAttestation(deps: ProviderDeps & { readonly log: Log }): Attestation {
  const opened = new Map<EvidenceSource, Promise<EvidenceProvider | Fault>>();
  const made = new Map<EvidenceSource, Evidence>();
  const provider: Attestation["provider"] = (source) => {
    const known = opened.get(source);
    if (known !== undefined) return known;
    const opening = openProvider(source, deps, AbortSignal.timeout(timeoutMs)).then((found) => {
      if (isFault(found)) opened.delete(source);
      return found;
    });
    opened.set(source, opening);
    return opening;
  };
  return {
    provider,
    async simulatedRoot() {
      const simulation = await provider("simulated");
      return isFault(simulation) ? undefined : simulation.root;
    },
    evidence(source) {
      if (source === "simulated" && !deps.simulatedAllowed) throw new Error(simulatedRefusal);
      const known = made.get(source);
      if (known !== undefined) return known;
      const evidence = quoting(() => provider(source), deps);
      made.set(source, evidence);
      return evidence;
    },
  };
}

function quoting(
  open: () => Promise<EvidenceProvider | Fault>,
  { clock, log }: ProviderDeps & { readonly log: Log },
): Evidence {
  return {
    async quote(reportData, signal, binding = "raw") {
      if (reportData !== undefined && isReserved(reportData)) return failed("reserved");
      const late = new AbortController();
      using _limit = clock.after(timeoutMs, () => late.abort());
      const until = AbortSignal.any([signal, late.signal]);
      const made = await Promise.race([make(open, reportData, binding, until), whenAborted(until)]);
      if (made !== undefined && !isFault(made)) return { kind: "quote", quote: made };
      if (signal.aborted) return failed("aborted");
      if (late.signal.aborted) return failed("timeout");
      log.warn({ reason: made?.message }, "an attestation quote could not be created");
      return failed("unavailable");
    },
  };
}

async function make(
  open: () => Promise<EvidenceProvider | Fault>,
  reportData: Uint8Array | undefined,
  binding: Quote["binding"],
  signal: AbortSignal,
): Promise<Quote | Fault | undefined> {
  const provider = await open();
  if (isFault(provider)) return provider;
  const isRaw = reportData !== undefined && binding === "raw";
  const preimage = joinBytes(hashedLabel, reportData ?? randomBytes(32));
  const bound = isRaw ? reportData : createHash("sha512").update(preimage).digest();
  const evidence = await provider.quote(bound, signal);
  if (isFault(evidence)) return evidence;
  // All facts about the quote are read from the quote itself.
  const content = await readContent(evidence);
  if (content === undefined || !sameBytes(content.reportData, bound)) return undefined;
  return {
    quote: evidence.quote,
    imageHash: content.imageHash,
    reportData: toHex(content.reportData),
    binding: isRaw ? "raw" : "hashed",
    ...(!isRaw && { preimage: toHex(preimage) }),
    teeType: provider.teeType,
    simulated: provider.teeType === "simulated",
  };
}

function failed(reason: QuoteFailure): Quoted {
  return { kind: "failed", reason };
}
