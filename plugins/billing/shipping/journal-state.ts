/** Compares the journal of the data folder with its state in the database. */
import { timingSafeEqual } from "node:crypto";
import { postgresError } from "sluice-gateway/postgres";
import { blob } from "sluice-gateway/store";
import {
  hasJournal,
  journalUid,
  newestCommit,
  openJournalReader,
} from "../metering/journal-reader.ts";
import type { Postgres } from "sluice-gateway/plugin";
import { findJournal, type KnownJournal } from "./charge-store.ts";
import { commitCheck } from "./commit-check.ts";

/** Returns the id of the journal. Throws StoreError. */
export function journalId(dataDir: string): string {
  const db = openJournalReader(dataDir);
  try {
    return journalUid(db);
  } finally {
    db.close();
  }
}

/**
 * Rejects with StoreError if the folder has a journal with charges that the database does not have: they would not count
 * for gateways that share the credit.
 */
export async function checkShipped(dataDir: string, database: Postgres): Promise<void> {
  if (!hasJournal(dataDir)) return;
  const { posted = 0 } = (await findJournal(database, journalId(dataDir))) ?? {};
  const db = openJournalReader(dataDir);
  try {
    const last = newestCommit(db);
    if (last <= posted) return;
    throw postgresError(
      "SLUICE_STORE_NOT_MOVED",
      `the journal in ${dataDir} ends at commit ${last}, and the PostgreSQL database has its charges only up to commit ${posted}`,
      "Start the gateway once with `metering.durability: local`, wait until sluice_ship_lag_seconds is 0, and stop it. Or use another data folder.",
    );
  } finally {
    db.close();
  }
}

/**
 * Throws StoreError if the database has a commit that this journal does not have. The data folder was then restored
 * from a backup, or copied, and its next charges would get the numbers of charges that the database already has.
 */
export function checkContinuation(dataDir: string, known: KnownJournal | undefined): void {
  if (known === undefined || known.posted === 0) return;
  const db = openJournalReader(dataDir);
  try {
    const row = db.prepare("SELECT records FROM commits WHERE seq = ?").get(known.posted);
    const check = row && commitCheck(blob(row, "records"));
    const isSame =
      check !== undefined &&
      known.check?.length === check.length &&
      timingSafeEqual(known.check, check);
    if (isSame) return;
    const last = newestCommit(db);
    throw postgresError(
      "SLUICE_STORE_RESTORED",
      check === undefined
        ? `the journal in ${dataDir} ends at commit ${last}, but the PostgreSQL database has its charges up to commit ${known.posted}`
        : `commit ${known.posted} of the journal in ${dataDir} is not the one whose charges the PostgreSQL database has`,
      "The data folder was restored from a backup or copied. Restore the newest data folder. If it is lost, move charges.db away: the gateway then starts a new journal, and the charges in the database stay.",
    );
  } finally {
    db.close();
  }
}
