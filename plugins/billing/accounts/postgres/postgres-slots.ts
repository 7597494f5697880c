/** The slots of idempotency keys in PostgreSQL. Leases and replays end by the clock of the database. */
import type { IdempotentRequest, NotRunReason, StoredResponse } from "sluice-gateway/services";
import { number, type Row } from "sluice-gateway/store";
import { notRunFromRow } from "../slot-rows.ts";
import { keptMs, leaseMs, type SlotStore } from "../slot-store.ts";
import type { PostgresTransactions } from "./transactions.ts";

/** Creates the slots. A change in a transaction of `transactions` and its slot can be one transaction. */
export function postgresSlots(transactions: PostgresTransactions): SlotStore {
  const query = (statement: string, values: readonly unknown[]): Promise<readonly Row[]> =>
    transactions.query(statement, values);
  return {
    transaction: (work) => transactions.run(work),
    async take(request, owner) {
      const { apiKeyId, key, fingerprint } = request;
      const [row] = await query("SELECT * FROM sluice.take_slot($1, $2, $3, $4, $5)", [
        apiKeyId,
        key,
        fingerprint,
        owner,
        leaseMs,
      ]);
      return row && notRun(request, row);
    },
    async find(request) {
      const { apiKeyId, key } = request;
      const [row] = await query("SELECT * FROM sluice.find_slot($1, $2)", [apiKeyId, key]);
      return row && notRun(request, row);
    },
    async put({ apiKeyId, key, fingerprint }, response) {
      await query(
        `INSERT INTO sluice.idempotency_slots
           (api_key_id, key, fingerprint, until, status, content_type, content_encoding, body)
         VALUES ($1, $2, $3, sluice.now_ms() + $4, $5, $6, $7, $8)
         ON CONFLICT (api_key_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
           owner = NULL, until = excluded.until, status = excluded.status,
           content_type = excluded.content_type, content_encoding = excluded.content_encoding,
           body = excluded.body`,
        [apiKeyId, key, fingerprint, keptMs, ...columnsOf(response)],
      );
    },
    async forget({ apiKeyId, key }) {
      await query("DELETE FROM sluice.idempotency_slots WHERE api_key_id = $1 AND key = $2", [
        apiKeyId,
        key,
      ]);
    },
    async finish(owner, response) {
      const rows = await query(
        `UPDATE sluice.idempotency_slots SET owner = NULL, until = sluice.now_ms() + $2, status = $3,
           content_type = $4, content_encoding = $5, body = $6
         WHERE owner = $1 RETURNING 1`,
        [owner, keptMs, ...columnsOf(response)],
      );
      return rows.length === 1;
    },
    async release(owner) {
      await query("DELETE FROM sluice.idempotency_slots WHERE owner = $1", [owner]);
    },
    async renew(owners) {
      await query(
        "UPDATE sluice.idempotency_slots SET until = sluice.now_ms() + $2 WHERE owner = ANY($1)",
        [owners, leaseMs],
      );
    },
    async sweep(max) {
      const [row] = await query(
        `WITH deleted AS (
           DELETE FROM sluice.idempotency_slots WHERE (api_key_id, key) IN
             (SELECT api_key_id, key FROM sluice.idempotency_slots
              WHERE until <= sluice.now_ms() LIMIT $1 FOR UPDATE SKIP LOCKED)
           RETURNING 1)
         SELECT count(*) AS count FROM deleted`,
        [max],
      );
      return number(row ?? {}, "count");
    },
  };
}

function notRun(request: IdempotentRequest, row: Row): NotRunReason {
  return row["is_locked"] === true ? { kind: "inFlight" } : notRunFromRow(request, row);
}

function columnsOf({ status, contentType, contentEncoding, body }: StoredResponse): unknown[] {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return [status, contentType ?? null, contentEncoding ?? null, bytes];
}
