/** Compares the journal of the data folder with what the database has of it. */
import { createHash, timingSafeEqual } from "node:crypto";
import { number, text } from "../../../src/store/row.ts";
import { postgresError } from "../../../src/store/postgres/failure.ts";
import { blob } from "../metering/journal-file.ts";
import { openJournalReader, singleRow } from "../metering/journal-reader.ts";
import type { ChargeStore } from "./charge-store.ts";

/** Returns a digest of the records of a commit, which have the times and the request ids of its charges. */
export function commitCheck(records: Uint8Array): Buffer {
  return createHash("sha256").update(records).digest().subarray(0, 16);
}

/** Returns the id of the journal. Throws StoreError. */
export function journalId(dataDir: string): string {
  const db = openJournalReader(dataDir);
  try {
    return text(singleRow(db, "SELECT uid FROM journal"), "uid");
  } finally {
    db.close();
  }
}

/**
 * Throws StoreError if the database has a commit that this journal does not have. The data folder was then restored
 * from a backup, or copied, and its next charges would take the numbers of charges that the database has already.
 */
export function checkContinuation(
  dataDir: string,
  known: Awaited<ReturnType<ChargeStore["find"]>>,
): void {
  if (known === undefined || known.posted === 0) return;
  const db = openJournalReader(dataDir);
  try {
    const row = db.prepare("SELECT records FROM commits WHERE seq = ?").get(known.posted);
    const check = row && commitCheck(blob(row["records"]));
    const isSame =
      check !== undefined &&
      known.check?.length === check.length &&
      timingSafeEqual(known.check, check);
    if (isSame) return;
    const last = number(singleRow(db, "SELECT ifnull(max(seq), 0) AS seq FROM commits"), "seq");
    throw postgresError(
      "SLUICE_STORE_RESTORED",
      check === undefined
        ? `the journal in ${dataDir} ends at commit ${last}, but the PostgreSQL database has its charges up to commit ${known.posted}`
        : `commit ${known.posted} of the journal in ${dataDir} is not the one whose charges the PostgreSQL database has`,
      "The data folder was restored from a backup or copied. Restore the newest data folder. If it is lost, move journal.db away: the gateway then starts a new journal, and the charges in the database stay.",
    );
  } finally {
    db.close();
  }
}
