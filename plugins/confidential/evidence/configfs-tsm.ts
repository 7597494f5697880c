/**
 * Quotes from the kernel's configfs (Linux 6.7 and later, Documentation/ABI/testing/configfs-tsm). Intel TDX and AMD
 * SEV-SNP use the same files. Each report needs a folder, which the kernel fills with files and which must be removed
 * afterwards.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { constants, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { isFault, type Fault } from "../protocol/fault.ts";
import { toBase64 } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { stapleCollateral, type CollateralSource } from "./collateral.ts";
import { bindsReportData, unavailable, type EvidenceProvider } from "./provider.ts";
import { stapleRevocationList, type RevocationListSource } from "./revocation-list.ts";

export const kernelFiles: TsmFiles = {
  mkdir: (path) => mkdir(path),
  read: (path) => readFile(path),
  // The kernel owns the file, so it is neither created nor truncated.
  write: (path, bytes) => writeFile(path, bytes, { flag: constants.O_WRONLY }),
  rmdir,
};

const drivers = { tdx_guest: "tdx", sev_guest: "sev-snp" } as const;
type TsmTee = (typeof drivers)[keyof typeof drivers];

export interface TsmOptions {
  /** Path of configfs, set only by tests. Anyone who can choose the folder can choose what is attested. */
  readonly folder?: string;
  readonly files?: TsmFiles;
  readonly collateral?: CollateralSource | undefined;
  readonly revocationLists?: RevocationListSource | undefined;
}

interface Tsm {
  readonly folder: string;
  readonly files: TsmFiles;
}

const reportFolder = "/sys/kernel/config/tsm/report";

export async function openConfigfsTsm(
  wanted: TsmTee | "any",
  options: TsmOptions = {},
): Promise<EvidenceProvider | Fault> {
  const { folder = reportFolder, files = kernelFiles, collateral, revocationLists } = options;
  const tsm: Tsm = { folder, files };
  const teeType = await runExclusively(() =>
    withReportFolder(tsm, (item) => readDriver(tsm, item)),
  );
  if (typeof teeType !== "string") return teeType;
  if (wanted !== "any" && wanted !== teeType) {
    return unavailable(`expected a machine with ${wanted}, but it has ${teeType}`);
  }
  return {
    teeType,
    staples: (teeType === "tdx" ? collateral : revocationLists) !== undefined,
    async quote(reportData, signal) {
      const made = await runExclusively(() => {
        if (signal.aborted) return unavailable("the request for the quote was aborted");
        return withReportFolder(tsm, (item) => makeQuote(tsm, item, teeType, reportData));
      });
      if (isFault(made)) return made;
      // The driver serves the whole machine, so another caller's quote may have arrived.
      if (!(await bindsReportData(made, reportData)))
        return unavailable("the quote has other report data than requested");
      return teeType === "tdx"
        ? stapleCollateral(made, collateral, signal)
        : stapleRevocationList(made, revocationLists, signal);
    },
  };
}

/** The driver does not allow concurrent use, so all requests of this process run one after the other. */
let last: Promise<unknown> = Promise.resolve();

function runExclusively<Result>(task: () => Result | Promise<Result>): Promise<Result> {
  const result = last.then(task);
  last = result.catch(() => undefined);
  return result;
}

/** Always removes the folder. One that remained would prevent the driver from being loaded again (EBUSY). */
async function withReportFolder<Result>(
  { folder, files }: Tsm,
  use: (item: string) => Promise<Result | Fault>,
): Promise<Result | Fault> {
  const item = join(folder, `sluice-${randomUUID()}`);
  try {
    await files.mkdir(item);
  } catch (error) {
    return unavailable(`this machine cannot create attestation reports (${errorCode(error)})`);
  }
  try {
    return await use(item);
  } catch (error) {
    return unavailable(`the platform did not create a report (${errorCode(error)})`);
  } finally {
    // A folder that cannot be removed disappears with the next boot.
    await files.rmdir(item).catch(errorCode);
  }
}

async function readDriver({ files }: Tsm, item: string): Promise<TsmTee | Fault> {
  const name = (await files.read(join(item, "provider"))).toString("latin1").trim();
  if (name !== "tdx_guest" && name !== "sev_guest") {
    return unavailable(
      "the kernel's attestation driver is unknown: expected tdx_guest or sev_guest",
    );
  }
  return drivers[name];
}

async function makeQuote(
  tsm: Tsm,
  item: string,
  teeType: TsmTee,
  reportData: Uint8Array,
): Promise<AttestationEvidence | Fault> {
  const { files } = tsm;
  if ((await readDriver(tsm, item)) !== teeType) {
    return unavailable("the kernel's attestation driver has changed since the start");
  }
  if (teeType === "sev-snp") await choosePrivilege(tsm, item);
  const before = await readNumber(tsm, join(item, "generation"));
  await files.write(join(item, "inblob"), reportData);
  const outblob = await files.read(join(item, "outblob"));
  const auxblob = teeType === "sev-snp" ? await files.read(join(item, "auxblob")) : undefined;
  // Each write increments the generation. Any other number means that the report may have another caller's data.
  if ((await readNumber(tsm, join(item, "generation"))) !== before + 1) {
    return unavailable("another process used the report folder at the same time");
  }
  const quote = toBase64(outblob);
  if (auxblob === undefined) return { tee_type: teeType, quote };
  return { tee_type: teeType, quote, ...(auxblob.length > 0 && { aux: toBase64(auxblob) }) };
}

/** Selects the most privileged level that the guest may use: 0, unless a paravisor occupies it. */
async function choosePrivilege({ files }: Tsm, item: string): Promise<void> {
  const floor = (await files.read(join(item, "privlevel_floor"))).toString("latin1").trim();
  if (floor !== "0") await files.write(join(item, "privlevel"), Buffer.from(floor));
}

async function readNumber({ files }: Tsm, path: string): Promise<number> {
  return Number((await files.read(path)).toString("latin1").trim());
}

/**
 * The file operations on configfs, which tests replace. Paths are absolute. Each rejects with an error whose `code` is
 * the kernel's.
 */
export interface TsmFiles {
  mkdir(path: string): Promise<void>;
  read(path: string): Promise<Buffer>;
  /** All bytes must be written with one system call. */
  write(path: string, bytes: Uint8Array): Promise<void>;
  rmdir(path: string): Promise<void>;
}

export function errorCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") {
    return error.code;
  }
  throw error;
}
