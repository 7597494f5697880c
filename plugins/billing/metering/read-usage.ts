import type { DatabaseSync } from "node:sqlite";
import { blob, explain, StoreError } from "sluice-gateway/internal/store";
import { parseChargeId, type ChargeId } from "./charge-number.ts";
import { readChargeText, type UsageRow } from "./charge-text.ts";
import {
  commitsWithin,
  NameReader,
  journalUid,
  openJournalReader,
  writtenPath,
} from "./journal-reader.ts";
import { at, kind, RecordCursor } from "./records.ts";

export interface UsageRange {
  /** Inclusive, in milliseconds since 1970. */
  readonly from?: number | undefined;
  /** Exclusive, in milliseconds since 1970. */
  readonly to?: number | undefined;
  /** Id of a charge. Only charges after it in the journal are read. */
  readonly after?: string | undefined;
}

const beforeFirst = { commit: 1, place: -1 };

/**
 * Yields the charges of `dataDir` in the order of the journal, up to those that were settled at the call. At most a few
 * hundred commits are in memory at once. Throws StoreError if the journal is missing or unreadable, if a newer release
 * wrote it, or if `after` is not a charge of this journal.
 */
export function* readUsage(dataDir: string, range: UsageRange = {}): Generator<UsageRow> {
  const file = writtenPath(dataDir);
  const db = openJournalReader(dataDir);
  try {
    const { from = -Infinity, to = Infinity } = range;
    const uid = journalUid(db);
    const names = new NameReader(db);
    const start = range.after === undefined ? beforeFirst : findCharge(db, range.after);
    for (const { seq, records } of commitsWithin(db, from, to, start.commit)) {
      const after = seq === start.commit ? start.place : -1;
      yield* chargesOf(records, `chg_${uid}_${seq}`, names, { from, to, after });
    }
  } catch (error) {
    throw explain(error, file);
  } finally {
    db.close();
  }
}

/** Throws StoreError if the id belongs to another journal, or the journal was restored from an older backup. */
export function findCharge(db: DatabaseSync, id: string): ChargeId {
  const found = parseChargeId(id);
  if (found?.journal === journalUid(db) && isCharge(db, found)) return found;
  throw new StoreError(
    "SLUICE_STORE_FAILED",
    `the journal has no charge with the id "${id}"`,
    "Pass the id of a charge that was exported from this data folder.",
  );
}

function isCharge(db: DatabaseSync, { commit, place }: ChargeId): boolean {
  const row = db.prepare("SELECT records FROM commits WHERE seq = ?").get(commit);
  if (row === undefined) return false;
  const cursor = new RecordCursor(blob(row, "records"));
  for (let next = 0; cursor.next(); next++) if (next === place) return cursor.kind === kind.charge;
  return false;
}

/** Yields the charges of one commit within [from, to) and after the position `after`. */
export function* chargesOf(
  records: Buffer,
  commit: string,
  names: NameReader,
  { from, to, after }: { readonly from: number; readonly to: number; readonly after: number },
): Generator<UsageRow> {
  const cursor = new RecordCursor(records);
  const name = (offset: number): string => names.get(cursor.uint(offset));
  for (let place = 0; cursor.next(); place++) {
    if (cursor.kind !== kind.charge || place <= after) continue;
    const field = at.charge;
    const time = cursor.float(field.time);
    if (time < from || time >= to) continue;
    const model = cursor.uint(field.model);
    const outcome = cursor.uint(field.outcome);
    const { route } = cursor;
    yield {
      id: `${commit}_${place}`,
      time,
      workspaceId: name(field.workspace),
      keyId: name(field.key),
      surface: name(field.surface),
      method: name(field.method),
      model: model === 0 ? undefined : names.get(model),
      ...readChargeText(cursor.text(field.text)),
      usedMilliCu: cursor.costMilliCu,
      includedMilliCu: cursor.float(field.included),
      purchasedMilliCu: cursor.float(field.purchased),
      overageMilliCu: cursor.float(field.overage),
      inputTokens: cursor.float(field.inputTokens),
      outputTokens: cursor.float(field.outputTokens),
      cachedTokens: cursor.cachedTokens,
      reasoningTokens: cursor.reasoningTokens,
      estimated: cursor.estimated,
      outcome: outcome === 0 ? "complete" : names.get(outcome),
      route: route === 0 ? undefined : names.get(route),
    };
  }
}
