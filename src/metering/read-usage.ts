/** Reads settled charges from the journal, also while a gateway writes it: for exports, tests and shipping. */
import type { Pricing } from "../services/networks.ts";
import { text } from "../store/row.ts";
import { explain, StoreError } from "../store/store-error.ts";
import { commitsWithin, NameReader } from "./commits.ts";
import { one, openJournalReader } from "./journal-reader.ts";
import { journalPath } from "./journal-schema.ts";
import { at, kind, readChargeText, RecordCursor } from "./records.ts";

/** One settled charge. The three draws add up to `usedCuMilli`. */
export interface UsageRow {
  /** Unique and stable: the journal's own id, the commit, the place in it. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly time: number;
  readonly workspaceId: string;
  readonly keyId: string;
  readonly surface: string;
  readonly method: string;
  readonly model: string | undefined;
  readonly requestId: string;
  /** What the agent called itself; undefined: it did not. */
  readonly agent: string | undefined;
  /** What an inference was reckoned with. */
  readonly pricing: Pricing | undefined;
  readonly usedCuMilli: number;
  readonly includedCuMilli: number;
  readonly purchasedCuMilli: number;
  readonly overageCuMilli: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly estimated: boolean;
  readonly outcome: string;
}

export interface UsageRange {
  /** Milliseconds since 1970; from this instant on. */
  readonly from?: number | undefined;
  /** Up to, and without, this instant. */
  readonly to?: number | undefined;
  /** The id of a charge: only what comes after it in the journal. */
  readonly after?: string | undefined;
}

/**
 * The charges of `dataDir` in the order of the journal, those that were settled when it was called. Holds a few hundred
 * commits in memory, never more. Throws StoreError: no journal, unreadable, of a newer release, or `after` is no charge of
 * this journal.
 */
export function* readUsage(dataDir: string, range: UsageRange = {}): Generator<UsageRow> {
  const file = journalPath(dataDir);
  const db = openJournalReader(dataDir);
  try {
    const { from = -Infinity, to = Infinity } = range;
    const uid = text(one(db, "SELECT uid FROM journal"), "uid");
    const names = new NameReader(db);
    const start = range.after === undefined ? { commit: 1, place: -1 } : placeOf(range.after, uid);
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

/** The commit and the place in it that a charge's id names. Throws StoreError when it is no id of this journal. */
export function placeOf(
  id: string,
  uid: string,
): { readonly commit: number; readonly place: number } {
  const [, journal, commit, place] = /^chg_([0-9a-f]+)_(\d{1,15})_(\d{1,9})$/.exec(id) ?? [];
  if (journal === uid) return { commit: Number(commit), place: Number(place) };
  throw new StoreError(
    "SLUICE_STORE_FAILED",
    `"${id}" is no charge of this journal`,
    "name the id of a charge that was exported from this data folder",
  );
}

/** Charges of one commit within [from, to) and behind the place `after`. */
function* chargesOf(
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
    yield {
      id: `${commit}_${place}`,
      time,
      workspaceId: name(field.workspace),
      keyId: name(field.key),
      surface: name(field.surface),
      method: name(field.method),
      model: model === 0 ? undefined : names.get(model),
      ...readChargeText(cursor.text(field.text)),
      usedCuMilli: cursor.costMilli,
      includedCuMilli: cursor.float(field.included),
      purchasedCuMilli: cursor.float(field.purchased),
      overageCuMilli: cursor.float(field.overage),
      inputTokens: cursor.float(field.inputTokens),
      outputTokens: cursor.float(field.outputTokens),
      estimated: cursor.estimated,
      outcome: outcome === 0 ? "complete" : names.get(outcome),
    };
  }
}
