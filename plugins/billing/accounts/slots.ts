/** The slots of idempotency keys. Leases and replays end by the clock of the store. */
import type { IdempotentRequest, NotRunReason, StoredResponse } from "sluice-gateway/services";
import {
  blob,
  optionalNumber,
  optionalText,
  text,
  valueRows,
  type Row,
} from "sluice-gateway/internal/store";
import type { JoinedSql } from "./joined-sql.ts";

/** gateway.md, "Idempotency": the replay window. */
const keptMs = 24 * 3_600_000;
/** Duration of the lease of a slot in flight (decisions.md section 11). */
const leaseMs = 60_000;

/** Every method rejects if the store cannot be used. An expired slot counts as missing. */
export interface SlotStore {
  /** Runs `work` in one transaction, which all changes of the accounts and of slots inside `work` join. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Takes the slot for `owner`. Returns the reason if the request must not run. Inside a transaction, no other request
   * can take the slot before the end of the transaction.
   */
  take(request: IdempotentRequest, owner: string): Promise<NotRunReason | undefined>;
  /** Stores the response in the slot of this owner. Returns false if the owner no longer has the slot. */
  finish(owner: string, response: StoredResponse): Promise<boolean>;
  /** Deletes the slot of this owner, if it still has it. A repeated request runs again. */
  release(owner: string): Promise<void>;
  renew(owners: readonly string[]): Promise<void>;
  /** Deletes up to `max` expired slots. Returns their number. */
  sweep(max: number): Promise<number>;
}

const renewedPerWrite = 500;

const takeSlot = `INSERT INTO sluice.idempotency_slots AS slot (api_key_id, key, fingerprint, owner, until)
  VALUES ($1, $2, $3, $4, sluice.now_ms() + ${leaseMs})
  ON CONFLICT (api_key_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
    owner = excluded.owner, until = excluded.until,
    status = NULL, content_type = NULL, content_encoding = NULL, body = NULL
  WHERE slot.until <= sluice.now_ms() RETURNING 1`;

export function createSlots(sql: JoinedSql): SlotStore {
  const { query } = sql;
  return {
    transaction: (work) => sql.transaction(work),
    async take(request, owner) {
      const { apiKeyId, key, fingerprint } = request;
      const taken = await query(takeSlot, [apiKeyId, key, fingerprint, owner]);
      if (taken.length > 0) return undefined;
      const [row] = await query(
        "SELECT * FROM sluice.idempotency_slots WHERE api_key_id = $1 AND key = $2",
        [apiKeyId, key],
      );
      // A slot that was released in the meantime was in flight a moment ago.
      return row === undefined ? { kind: "inFlight" } : notRun(request, row);
    },
    async finish(owner, { status, contentType, contentEncoding, body }: StoredResponse) {
      const rows = await query(
        `UPDATE sluice.idempotency_slots SET owner = NULL, until = sluice.now_ms() + ${keptMs}, status = $2,
           content_type = $3, content_encoding = $4, body = $5
         WHERE owner = $1 RETURNING 1`,
        [owner, status, contentType ?? null, contentEncoding ?? null, body],
      );
      return rows.length === 1;
    },
    async release(owner) {
      await query("DELETE FROM sluice.idempotency_slots WHERE owner = $1", [owner]);
    },
    async renew(owners) {
      for (let first = 0; first < owners.length; first += renewedPerWrite) {
        const some = owners.slice(first, first + renewedPerWrite);
        await query(
          `UPDATE sluice.idempotency_slots SET until = sluice.now_ms() + ${leaseMs}
           WHERE owner IN ${valueRows(1, some.length)}`,
          some,
        );
      }
    },
    async sweep(max) {
      const deleted = await query(
        `DELETE FROM sluice.idempotency_slots WHERE (api_key_id, key) IN
           (SELECT api_key_id, key FROM sluice.idempotency_slots
            WHERE until <= sluice.now_ms() LIMIT $1)
         RETURNING 1`,
        [max],
      );
      return deleted.length;
    },
  };
}

function notRun({ fingerprint }: IdempotentRequest, row: Row): NotRunReason {
  const status = optionalNumber(row, "status");
  if (status === undefined) return { kind: "inFlight" };
  if (text(row, "fingerprint") !== fingerprint) return { kind: "mismatch" };
  const response = {
    status,
    contentType: optionalText(row, "content_type"),
    contentEncoding: optionalText(row, "content_encoding"),
    body: blob(row, "body"),
  };
  return { kind: "replay", response };
}
