/**
 * The position of the delivery in the journal, stored in the data folder: the charges after it are not delivered yet.
 */
import { readFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { explain, StoreError } from "sluice-gateway/store";
import { isObject } from "sluice-gateway/toolkit";
import { openJournalReader } from "../journal-reader.ts";
import { findCharge } from "../read-usage.ts";

const fileName = "usage-export.json";

export class ExportCursor {
  /** Id of the charge that was delivered last. Undefined if none was delivered. */
  after: string | undefined;
  readonly #file: string;

  private constructor(file: string, after: string | undefined) {
    this.#file = file;
    this.after = after;
  }

  /**
   * Throws StoreError if the file cannot be read or does not name a charge of this journal. Only the operator can
   * decide whether to start again or to skip the charges made since.
   */
  static open(dataDir: string): ExportCursor {
    const file = join(dataDir, fileName);
    const after = readCursor(dataDir);
    const db = openJournalReader(dataDir);
    try {
      if (after !== undefined) findCharge(db, after);
    } catch (error) {
      throw unusable(file, error);
    } finally {
      db.close();
    }
    return new ExportCursor(file, after);
  }

  /** Resolves when the position is on disk. Rejects with the error of the system; `after` has changed in any case. */
  async moveTo(id: string): Promise<void> {
    this.after = id;
    const next = `${this.#file}.next`;
    const handle = await open(next, "w", 0o600);
    try {
      await handle.writeFile(`${JSON.stringify({ after: id })}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    // The rename is atomic: a crash leaves either the new file or the old one.
    await rename(next, this.#file);
  }
}

/** Returns the id of the charge that was delivered last. Undefined if the folder has none. Throws StoreError. */
export function readCursor(dataDir: string): string | undefined {
  const file = join(dataDir, fileName);
  let content: string;
  try {
    content = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
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
