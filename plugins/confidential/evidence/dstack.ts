/**
 * Quotes from dstack's guest agent, over its Unix socket. The agent serialises access to the driver for all containers
 * of the machine. dstack's own library is not used, because it silently follows DSTACK_SIMULATOR_ENDPOINT.
 */
import { existsSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { isObject } from "sluice-gateway/internal/toolkit";
import { isFault, type Fault } from "../protocol/fault.ts";
import { fromHex, toBase64, toHex, type Bytes } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { readSnpReport } from "../verify/snp-report.ts";
import { postJson } from "./unix-socket.ts";
import { stapleCollateral, type CollateralSource } from "./collateral.ts";
import { bindsReportData, unavailable, type EvidenceProvider } from "./provider.ts";

/** The paths in different releases of dstack. The first one that exists is used. */
const sockets: readonly string[] = [
  "/var/run/dstack.sock",
  "/run/dstack.sock",
  "/var/run/dstack/dstack.sock",
  "/run/dstack/dstack.sock",
];

const snpReportBytes = 1184;
const snpReportDataAt = 0x50;

export interface DstackOptions {
  readonly sockets?: readonly string[];
  readonly collateral?: CollateralSource | undefined;
}

export function hasDstack(paths: readonly string[] = sockets): boolean {
  return paths.some((path) => existsSync(path));
}

/** Requests a quote to find out the kind of the machine. */
export async function openDstack(
  options: DstackOptions,
  signal: AbortSignal,
): Promise<EvidenceProvider | Fault> {
  const { sockets: paths = sockets, collateral } = options;
  const socket = paths.find((path) => existsSync(path));
  if (socket === undefined) return unavailable("this machine has no dstack agent");
  const first = await askForQuote(socket, randomBytes(64), signal);
  if (isFault(first)) return first;
  return {
    teeType: first.tee_type,
    staples: first.tee_type === "tdx" && collateral !== undefined,
    async quote(reportData, until) {
      const made = await askForQuote(socket, reportData, until);
      return isFault(made) ? made : stapleCollateral(made, collateral, until);
    },
  };
}

async function askForQuote(
  socket: string,
  reportData: Uint8Array,
  signal: AbortSignal,
): Promise<AttestationEvidence | Fault> {
  const quoteRequest = { report_data: toHex(reportData) };
  const answer = await postJson(socket, "/GetQuote", quoteRequest, signal);
  if (!isObject(answer)) return unavailable("the dstack agent did not return a quote");
  const { quote, attestation, event_log: log } = answer;
  // On SEV-SNP the quote is empty.
  const made =
    typeof quote === "string" && quote !== ""
      ? tdxEvidence(quote, log)
      : snpEvidence(attestation, reportData);
  if (made === undefined || !(await bindsReportData(made, reportData))) {
    return unavailable(
      "the dstack agent's quote is invalid or has other report data than requested",
    );
  }
  return made;
}

function tdxEvidence(quote: string, log: unknown): AttestationEvidence | undefined {
  const bytes = fromHex(quote);
  if (bytes === undefined) return undefined;
  const hasLog = typeof log === "string" && log !== "";
  return { tee_type: "tdx", quote: toBase64(bytes), ...(hasLog && { event_log: log }) };
}

/**
 * The format of the agent's envelope changes between releases, so the report is located by the requested report data.
 */
function snpEvidence(
  attestation: unknown,
  reportData: Uint8Array,
): AttestationEvidence | undefined {
  const envelope = typeof attestation === "string" ? fromHex(attestation) : undefined;
  const report = envelope && findReport(envelope, reportData);
  return report && { tee_type: "sev-snp", quote: toBase64(report) };
}

function findReport(envelope: Bytes, reportData: Uint8Array): Bytes | undefined {
  const within = Buffer.from(envelope.buffer, envelope.byteOffset, envelope.length);
  let at = within.indexOf(reportData);
  for (; at !== -1; at = within.indexOf(reportData, at + 1)) {
    const start = at - snpReportDataAt;
    const report = start < 0 ? undefined : envelope.slice(start, start + snpReportBytes);
    if (report !== undefined && readSnpReport(report) !== undefined) return report;
  }
  return undefined;
}
