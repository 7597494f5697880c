/**
 * Reads the next commits of the journal and encodes their charges for the database. This is a job of a thread, because
 * thousands of charges per second would block the event loop.
 */
import { placesPerCommit } from "../metering/charge-number.ts";
import { transferredResult } from "sluice-gateway/compute";
import { explain } from "sluice-gateway/store";
import { commitsWithin, NameReader } from "../metering/commits.ts";
import { openJournalReader, writtenPath } from "../metering/journal-reader.ts";
import { chargesOf, type UsageRow } from "../metering/read-usage.ts";
import { usageJson } from "../metering/usage-json.ts";
import { storableJson } from "../storable-json.ts";
import type { EncodedCommits } from "../leases/ledger.ts";
import { commitCheck } from "./commit-check.ts";

export interface BatchJob {
  readonly dataDir: string;
  /** Number of the last commit that was posted. */
  readonly after: number;
  /** Number of the last commit to read. */
  readonly upTo: number;
}

/** Charges of consecutive commits. */
export interface Batch extends EncodedCommits {
  /** Number of the first and the last commit. */
  readonly first: number;
  readonly last: number;
  /** Time of the first charge, in milliseconds since 1970. Undefined if there are no charges. */
  readonly since: number | undefined;
  /** True if there are more commits. */
  readonly more: boolean;
}

interface BatchHead extends Pick<Batch, "first" | "last" | "count" | "more"> {
  /** In hexadecimal. */
  readonly check: string;
  readonly since?: number;
}

/** A batch ends with the commit that reaches one of these limits. A commit has at most a few thousand charges. */
const maxCharges = 1_000;
const maxChars = 512 * 1024;
const maxCommits = 2_000;

/** Runs in a thread of the pool. Returns undefined if all commits have been posted. Throws StoreError. */
export default function batchBytes({ dataDir, after, upTo }: BatchJob): unknown {
  const db = openJournalReader(dataDir);
  try {
    const names = new NameReader(db);
    const rows: string[] = [];
    let chars = 0;
    let head: BatchHead | undefined;
    for (const { seq, records } of commitsWithin(db, -Infinity, Infinity, after + 1)) {
      if (seq > upTo) break;
      if (head !== undefined && isFull(rows.length, chars, seq - after)) {
        head = { ...head, more: true };
        break;
      }
      for (const row of chargesOf(records, String(seq), names, wholeCommit)) {
        const encoded = encode(row, seq);
        rows.push(encoded);
        chars += encoded.length;
        head ??= { ...emptyHead(after), since: row.time };
        if (head.since === undefined) head = { ...head, since: row.time };
      }
      const check = commitCheck(records).toString("hex");
      head = { ...(head ?? emptyHead(after)), last: seq, check, count: rows.length };
    }
    if (head === undefined) return undefined;
    return transferredResult(
      new TextEncoder().encode(`${JSON.stringify(head)}\n[${rows.join(",")}]`),
    );
  } catch (error) {
    throw explain(error, writtenPath(dataDir));
  } finally {
    db.close();
  }
}

const wholeCommit = { from: -Infinity, to: Infinity, after: -1 };

function emptyHead(after: number): BatchHead {
  return { first: after + 1, last: after, check: "", count: 0, more: false };
}

function isFull(charges: number, chars: number, commits: number): boolean {
  return charges >= maxCharges || chars >= maxChars || commits > maxCommits;
}

/** Parses the result of a job. */
export function readBatch(bytes: Uint8Array): Batch {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = buffer.indexOf(0x0a);
  // Only `batchBytes` writes this line.
  const { check, since, ...head } = JSON.parse(buffer.toString("utf8", 0, end)) as BatchHead;
  return {
    ...head,
    since,
    check: Buffer.from(check, "hex"),
    rows: buffer.subarray(end + 1),
  };
}

/** Returns a charge as a JSON object with the columns of the table `charges`. */
function encode(row: UsageRow, commit: number): string {
  const { id, used_cu_milli: _, ...columns } = usageJson(row);
  const place = Number(id.slice(id.lastIndexOf("_") + 1));
  const charge = {
    seq: commit * placesPerCommit + place,
    ...columns,
    included_cu_milli: row.includedMilliCu,
    purchased_cu_milli: row.purchasedMilliCu,
    overage_cu_milli: row.overageMilliCu,
    ...(row.route !== undefined && { route: row.route }),
    ...(row.taken !== undefined && { taken: row.taken.slice(0, 3), key_taken: row.taken[3] }),
  };
  return storableJson(charge);
}
