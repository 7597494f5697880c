/**
 * The journal on disk: appends a group of records in one transaction with one fsync, keeps the sums up to date, and
 * recovers both after a crash. It does not depend on threads.
 */
import type { DatabaseSync } from "node:sqlite";
import { blob, number, transaction } from "sluice-gateway/internal/store";
import { singleRow } from "./journal-reader.ts";
import { openChargesDatabase } from "./journal-schema.ts";
import {
  at,
  closeReason,
  kind,
  RecordCursor,
  maxRecordBytes,
  writeClosed,
  timeOffset,
} from "./records.ts";
import { findFutureCommits, redateCommits, type FutureCommits } from "./redate.ts";
import { Sums } from "./sums.ts";
import { dayWindow } from "./windows.ts";

/** A checkpoint after this number of records, before the minute has passed, bounds the time of the next start. */
const checkpointRecords = 500_000;
/**
 * Number of WAL pages at which SQLite moves them into the database. Its default of 1,000 stalls a commit for 4 ms each
 * time (measured: p99.9). This value stalls it for 1.5 ms, at the same CPU time.
 */
const walPages = 200;
/** Bytes that the probe writes: more than one or two pages that may happen to be free. */
const probeBytes = 64 * 1024;

interface Group {
  readonly names: readonly (readonly [id: number, name: string])[];
  readonly rows: number;
  readonly first: number;
  readonly last: number;
}

export class JournalFile implements Disposable {
  readonly #db: DatabaseSync;
  readonly #sums: Sums;
  #seq: number;
  #checkpointMinute = 0;
  #rowsSinceCheckpoint = 0;
  readonly #insert: ReturnType<DatabaseSync["prepare"]>;
  readonly #insertName: ReturnType<DatabaseSync["prepare"]>;

  private constructor(db: DatabaseSync) {
    this.#db = db;
    this.#sums = Sums.load(db);
    const { seq, checkpoint } = readPositions(db);
    this.#seq = seq;
    this.#replay(checkpoint);
    this.#insert = db.prepare("INSERT INTO commits VALUES (?, ?, ?, ?)");
    this.#insertName = db.prepare("INSERT INTO names VALUES (?, ?) ON CONFLICT DO NOTHING");
  }

  /**
   * Throws StoreError if the journal cannot be used. `maxPages`: only for tests, maximum size of the journal in pages;
   * beyond it the disk is "full" (SQLITE_FULL).
   */
  static open(dataDir: string, maxPages?: number): JournalFile {
    const db = openChargesDatabase(dataDir);
    try {
      db.exec(`PRAGMA wal_autocheckpoint = ${walPages}`);
      if (maxPages !== undefined) db.exec(`PRAGMA max_page_count = ${maxPages}`);
      return new JournalFile(db);
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Adds the commits after `checkpoint` to the sums. After an upgrade, these are all. */
  #replay(checkpoint: number): void {
    const page = this.#db.prepare(
      "SELECT seq, records FROM commits WHERE seq > ? ORDER BY seq LIMIT 1000",
    );
    for (let last = checkpoint; last < this.#seq;) {
      for (const row of page.all(last)) {
        this.#sums.add(blob(row, "records"));
        last = number(row, "seq");
      }
      if (!this.#sums.isLarge) continue;
      this.#sums.write(this.#db, last);
      this.#sums.written();
    }
  }

  /**
   * Recovers the journal after a crash: closes every open intent with an `expired` record at `now` and writes the
   * sums. Nothing is charged for these intents, because the output of an interrupted stream is unknown and the
   * customer did not receive its end.
   */
  recover(now: number): { readonly expired: number } {
    const open = [...this.#sums.openIntents.keys()];
    const time = Math.max(now, this.#sums.newest);
    if (open.length > 0) {
      const records = Buffer.alloc(open.length * maxRecordBytes);
      const target = { bytes: records, view: new DataView(records.buffer, records.byteOffset) };
      let end = 0;
      for (const intent of open) end += writeClosed(target, end, time, intent, closeReason.expired);
      this.append(records.subarray(0, end));
    }
    this.checkpoint();
    return { expired: open.length };
  }

  /** The commit is on disk when the method returns. Throws, without a change, if it cannot be written. */
  append(records: Buffer): void {
    const group = this.#read(records);
    const minute = Math.floor(group.last / dayWindow.stepMs);
    const due =
      minute > this.#checkpointMinute ||
      this.#rowsSinceCheckpoint >= checkpointRecords ||
      this.#sums.isLarge;
    const writesSums = due && this.#sums.dirty;
    if (writesSums || group.names.length > 0) {
      transaction(this.#db, () => {
        for (const [id, name] of group.names) this.#insertName.run(id, name);
        this.#insert.run(this.#seq + 1, group.first, group.last, records);
        // The sums include the commits up to the previous one, which has been committed.
        if (writesSums) this.#sums.write(this.#db, this.#seq);
      });
    } else this.#insert.run(this.#seq + 1, group.first, group.last, records);
    this.#seq++;
    if (writesSums) this.#sumsWritten();
    if (due) this.#checkpointMinute = minute;
    this.#sums.add(records);
    this.#rowsSinceCheckpoint += group.rows;
  }

  /** Writes the sums, so that the next start has no commits to replay. */
  checkpoint(): void {
    if (!this.#sums.dirty) return;
    this.#sums.write(this.#db, this.#seq);
    this.#sumsWritten();
  }

  /**
   * Moves the charges of a clock that ran ahead to the present, `now`. Returns undefined if there are none: see
   * `findFutureCommits`. Throws, without a change, if the journal cannot be written.
   */
  correct(now: number): FutureCommits | undefined {
    const future = findFutureCommits(this.#db, now);
    if (future === undefined) return undefined;
    this.checkpoint();
    redateCommits(this.#db, future);
    this.#sums.newest = future.present;
    return future;
  }

  /** Writes and removes enough bytes to show whether the disk has room. Throws if it does not. */
  probe(): void {
    this.#db.exec(`INSERT OR REPLACE INTO probe VALUES (1, zeroblob(${probeBytes}))`);
    this.#db.exec("DELETE FROM probe");
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  #sumsWritten(): void {
    this.#sums.written();
    this.#rowsSinceCheckpoint = 0;
  }

  #read(records: Buffer): Group {
    const names: [number, string][] = [];
    const cursor = new RecordCursor(records);
    let rows = 0;
    let first = Infinity;
    let last = 0;
    while (cursor.next()) {
      if (cursor.kind === kind.name) {
        names.push([cursor.uint(at.name.id), cursor.text(at.name.text)]);
        continue;
      }
      const time = cursor.float(timeOffset(cursor.kind));
      first = Math.min(first, time);
      last = Math.max(last, time);
      rows++;
    }
    return { names, rows, first: Math.min(first, last), last };
  }
}

function readPositions(db: DatabaseSync): { seq: number; checkpoint: number } {
  const row = singleRow(
    db,
    "SELECT seq AS checkpoint, (SELECT ifnull(max(seq), 0) FROM commits) AS seq FROM checkpoint",
  );
  const checkpoint = number(row, "checkpoint");
  return { seq: Math.max(number(row, "seq"), checkpoint), checkpoint };
}
