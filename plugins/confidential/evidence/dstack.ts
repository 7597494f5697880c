/**
 * Quotes by dstack's guest agent, over its Unix socket: the agent serialises access to the driver for every container
 * of the machine. We speak HTTP to it ourselves, since its own library follows DSTACK_SIMULATOR_ENDPOINT without a
 * word.
 */
import { existsSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { fault, isFault } from "../protocol/fault.ts";
import type { Fault } from "../protocol/fault.ts";
import { isJsonObject } from "../protocol/strict-json.ts";
import { fromHex, toBase64, toHex } from "../verify/binary-text.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { readSnpReport } from "../verify/snp-report.ts";
import { askSocket } from "./agent-socket.ts";
import { staple } from "./collateral.ts";
import type { CollateralSource } from "./collateral.ts";
import { carries } from "./provider.ts";
import type { EvidenceProvider } from "./provider.ts";

/** Where releases of dstack have put it; the first that exists. */
const sockets: readonly string[] = [
  "/var/run/dstack.sock",
  "/run/dstack.sock",
  "/var/run/dstack/dstack.sock",
  "/run/dstack/dstack.sock",
];

/** Of a SEV-SNP report, and where it carries its report data. */
const snpReportBytes = 1184;
const snpReportDataAt = 0x50;

export interface DstackOptions {
  readonly sockets?: readonly string[];
  readonly collateral?: CollateralSource;
}

/** Whether an agent can be expected here. */
export function hasDstack(paths: readonly string[] = sockets): boolean {
  return paths.some((path) => existsSync(path));
}

/** Asks for one quote to learn what the machine is; a fault where there is no agent or it gives none. */
export async function openDstack(
  options: DstackOptions,
  signal: AbortSignal,
): Promise<EvidenceProvider | Fault> {
  const { sockets: paths = sockets, collateral } = options;
  const socket = paths.find((path) => existsSync(path));
  if (socket === undefined) return unavailable("there is no dstack agent here");
  const first = await askForQuote(socket, randomBytes(64), signal);
  if (isFault(first)) return first;
  return {
    teeType: first.tee_type,
    simulated: false,
    staples: first.tee_type === "tdx" && collateral !== undefined,
    async quote(reportData, until) {
      const made = await askForQuote(socket, reportData, until);
      return isFault(made) ? made : staple(made, collateral, until);
    },
  };
}

async function askForQuote(
  socket: string,
  reportData: Uint8Array,
  signal: AbortSignal,
): Promise<AttestationEvidence | Fault> {
  const asked = { report_data: toHex(reportData) };
  const answer = await askSocket(socket, "/GetQuote", asked, signal);
  if (!isJsonObject(answer)) return unavailable("the dstack agent gave no quote");
  const { quote, attestation, event_log: log } = answer;
  // On SEV-SNP the quote is empty.
  const made =
    typeof quote === "string" && quote !== ""
      ? tdxEvidence(quote, log)
      : snpEvidence(attestation, reportData);
  if (made === undefined || !(await carries(made, reportData))) {
    return unavailable("the dstack agent's quote cannot be used");
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
 * The agent's own envelope changes from release to release; the report inside is found by the report data that it must
 * carry.
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

function unavailable(why: string): Fault {
  return fault("ATTESTATION_UNAVAILABLE", why);
}
