/** The position of the delivery: the charges after it are not delivered yet. */
import { readFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import type { RunSql } from "sluice-gateway/plugin";
import { explain, optionalText, StoreError } from "sluice-gateway/internal/store";
import { errorCode, isObject } from "sluice-gateway/internal/toolkit";
import { openJournalReader } from "../journal-reader.ts";
import { findCharge } from "../read-usage.ts";

export interface Cursor {
  /**
   * Takes the delivery, or renews the right to it. Returns undefined if another gateway delivers. `after`: undefined if
   * nothing was delivered. Rejects with StoreError.
   */
  take(): Promise<{ readonly after: string | undefined } | undefined>;
  /** Stores the position. Rejects if another gateway has taken over the delivery, or if it cannot be stored. */
  moveTo(position: string): Promise<void>;
  /** Lets another gateway deliver at once. Rejects with StoreError. */
  release(): Promise<void>;
}

const fileName = "usage-export.json";

/**
 * The position of a gateway by itself, in a file of the data folder. It is not in `state.db`, because a restore must
 * not take it back: the charges have been delivered. Throws StoreError if the file cannot be read or does not name a
 * charge of this journal. Only the operator can decide whether to start again or to skip the charges made since.
 */
export function openFileCursor(dataDir: string): Cursor {
  const file = join(dataDir, fileName);
  let after = readPosition(dataDir);
  const db = openJournalReader(dataDir);
  try {
    if (after !== undefined) findCharge(db, after);
  } catch (error) {
    throw unusable(file, error);
  } finally {
    db.close();
  }
  return {
    take: () => Promise.resolve({ after }),
    async moveTo(id) {
      after = id;
      const next = `${file}.next`;
      const handle = await open(next, "w", 0o600);
      try {
        await handle.writeFile(`${JSON.stringify({ after: id })}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      // The rename is atomic: a crash leaves either the new file or the old one.
      await rename(next, file);
    },
    release: () => Promise.resolve(),
  };
}

/** Undefined if nothing was delivered. Throws StoreError. */
function readPosition(dataDir: string): string | undefined {
  const file = join(dataDir, fileName);
  let content: string;
  try {
    content = readFileSync(file, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw explain(error, file);
  }
  try {
    const value: unknown = JSON.parse(content);
    if (isObject(value) && typeof value["after"] === "string") return value["after"];
  } catch {
    // The error below also covers invalid JSON.
  }
  throw unusable(file, undefined);
}

function unusable(file: string, cause: unknown): StoreError {
  return new StoreError(
    "SLUICE_STORE_FAILED",
    `${file} has a position that is not in this journal`,
    "Restore the file that belongs to this data folder, or remove it to export everything again.",
    cause,
  );
}

/**
 * Time for which a gateway may deliver without renewing its right. It is longer than the delivery of a batch may take,
 * so that a slow delivery is not repeated.
 */
const holdMs = 45_000;

const take = `INSERT INTO sluice.jobs AS job (name, holder, until)
  VALUES ('usage export', $1, sluice.now_ms() + ${holdMs})
  ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE job.holder = excluded.holder OR job.until <= sluice.now_ms()
  RETURNING position`;
const move = `UPDATE sluice.jobs SET position = $2, until = sluice.now_ms() + ${holdMs}
  WHERE name = 'usage export' AND holder = $1 RETURNING 1`;
const release = "UPDATE sluice.jobs SET until = 0 WHERE name = 'usage export' AND holder = $1";

/**
 * The position of several gateways, of which one delivers the charges of all. If it has not renewed its right in time,
 * another one takes over. Both may deliver for a moment, so a charge can be delivered twice.
 *
 * `holder`: id of this start of this gateway. `dataDir`: the folder of a gateway that has delivered its own charges
 * before, and copied them. The first delivery begins after those.
 */
export function sharedCursor(query: RunSql, holder: string, dataDir: string): Cursor {
  return {
    async take() {
      const [row] = await query(take, [holder]);
      return row && { after: optionalText(row, "position") ?? readPosition(dataDir) };
    },
    async moveTo(position) {
      const [row] = await query(move, [holder, position]);
      if (row === undefined) throw new Error("another gateway has taken over the work");
    },
    async release() {
      await query(release, [holder]);
    },
  };
}
