/**
 * Quotes by configfs (Linux 6.7 and later, Documentation/ABI/testing/configfs-tsm): Intel TDX and AMD SEV-SNP by the
 * same files. A folder for each report, which the kernel fills and which must not be left behind.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { fault, isFault } from "../protocol/fault.ts";
import type { Fault } from "../protocol/fault.ts";
import { toBase64 } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { staple } from "./collateral.ts";
import type { CollateralSource } from "./collateral.ts";
import { carries } from "./provider.ts";
import type { EvidenceProvider } from "./provider.ts";
import { stapleRevocationList } from "./revocation-list.ts";
import type { RevocationListSource } from "./revocation-list.ts";
import { errorCode, kernelFiles } from "./tsm-files.ts";
import type { TsmFiles } from "./tsm-files.ts";

/** What the kernel's drivers call themselves. */
const drivers = { tdx_guest: "tdx", sev_guest: "sev-snp" } as const;
type TsmTee = (typeof drivers)[keyof typeof drivers];

export interface TsmOptions {
  /** Fixed in production: whoever may choose it could choose what is attested. */
  readonly folder?: string;
  readonly files?: TsmFiles;
  /** For TDX: what a verifier needs beside the quote. */
  readonly collateral?: CollateralSource;
  /** For SEV-SNP: where AMD's revocation list comes from. */
  readonly revocationLists?: RevocationListSource;
}

interface Tsm {
  readonly folder: string;
  readonly files: TsmFiles;
}

const reportFolder = "/sys/kernel/config/tsm/report";

/** The provider of this machine; a fault where it has none of that kind. */
export async function openConfigfsTsm(
  wanted: TsmTee | "any",
  options: TsmOptions = {},
): Promise<EvidenceProvider | Fault> {
  const { folder = reportFolder, files = kernelFiles, collateral, revocationLists } = options;
  const tsm: Tsm = { folder, files };
  const teeType = await inTurn(() => withItem(tsm, (item) => readDriver(tsm, item)));
  if (typeof teeType !== "string") return teeType;
  if (wanted !== "any" && wanted !== teeType) return unavailable(`this machine is ${teeType}`);
  return {
    teeType,
    simulated: false,
    staples: (teeType === "tdx" ? collateral : revocationLists) !== undefined,
    async quote(reportData, signal) {
      const made = await inTurn(() => {
        if (signal.aborted) return unavailable("nobody waits for the quote");
        return withItem(tsm, (item) => makeQuote(tsm, item, teeType, reportData));
      });
      if (isFault(made)) return made;
      // The driver serves the whole machine: what it hands out is believed when it is what was asked for.
      if (!(await carries(made, reportData))) return unavailable("the quote is for something else");
      return teeType === "tdx"
        ? staple(made, collateral, signal)
        : stapleRevocationList(made, revocationLists, signal);
    },
  };
}

/** The driver cannot be used from two places at once: all of this process wait for one another. */
let last: Promise<unknown> = Promise.resolve();

function inTurn<Result>(task: () => Result | Promise<Result>): Promise<Result> {
  const result = last.then(task);
  last = result.catch(() => undefined);
  return result;
}

/** A folder left behind would keep the driver from being loaded again (EBUSY): it always goes. */
async function withItem<Result>(
  { folder, files }: Tsm,
  use: (item: string) => Promise<Result | Fault>,
): Promise<Result | Fault> {
  const item = join(folder, `sluice-${randomUUID()}`);
  try {
    await files.mkdir(item);
  } catch (error) {
    return unavailable(`this machine makes no reports (${errorCode(error)})`);
  }
  try {
    return await use(item);
  } catch (error) {
    return unavailable(`the platform made no report (${errorCode(error)})`);
  } finally {
    // What it could not remove is for the next start of the machine.
    await files.rmdir(item).catch(errorCode);
  }
}

async function readDriver({ files }: Tsm, item: string): Promise<TsmTee | Fault> {
  const name = (await files.read(join(item, "provider"))).toString("latin1").trim();
  if (name !== "tdx_guest" && name !== "sev_guest") return unavailable("the driver is not known");
  return drivers[name];
}

async function makeQuote(
  tsm: Tsm,
  item: string,
  teeType: TsmTee,
  reportData: Uint8Array,
): Promise<AttestationEvidence | Fault> {
  const { files } = tsm;
  if ((await readDriver(tsm, item)) !== teeType) return unavailable("the driver has changed");
  if (teeType === "sev-snp") await choosePrivilege(tsm, item);
  const before = await readNumber(tsm, join(item, "generation"));
  await files.write(join(item, "inblob"), reportData);
  const outblob = await files.read(join(item, "outblob"));
  const auxblob = teeType === "sev-snp" ? await files.read(join(item, "auxblob")) : undefined;
  // Each write counts: another number, and somebody else's bytes may be in the report.
  if ((await readNumber(tsm, join(item, "generation"))) !== before + 1) {
    return unavailable("somebody else asked at the same time");
  }
  const quote = toBase64(outblob);
  if (auxblob === undefined) return { tee_type: teeType, quote };
  return { tee_type: teeType, quote, ...(auxblob.length > 0 && { aux: toBase64(auxblob) }) };
}

/** The most privileged level that the guest may ask for, 0 unless a paravisor has it. */
async function choosePrivilege({ files }: Tsm, item: string): Promise<void> {
  const floor = (await files.read(join(item, "privlevel_floor"))).toString("latin1").trim();
  if (floor !== "0") await files.write(join(item, "privlevel"), Buffer.from(floor));
}

async function readNumber({ files }: Tsm, path: string): Promise<number> {
  return Number((await files.read(path)).toString("latin1").trim());
}

function unavailable(why: string): Fault {
  return fault("ATTESTATION_UNAVAILABLE", why);
}
