/** The slots of idempotency keys in the accounts database. */
import type { DatabaseSync } from "node:sqlite";
import type { Awaitable, Clock } from "sluice-gateway/plugin";
import type { IdempotentRequest, NotRunReason, StoredResponse } from "sluice-gateway/services";
import { number } from "sluice-gateway/store";
import { notRunFromRow } from "../slot-rows.ts";
import { keptMs, leaseMs, type SlotStore } from "../slot-store.ts";
import type { EmbeddedAccountStore } from "./embedded-account-store.ts";

/** Creates the slots in the database of `store`, so that a change there and its slot can be one transaction. */
export function embeddedSlots(
  store: Pick<EmbeddedAccountStore, "write" | "transaction">,
  clock: Pick<Clock, "now">,
): SlotStore {
  const write = <T>(work: (db: DatabaseSync) => T): Awaitable<T> => store.write(work);
  return {
    transaction: (work) => store.transaction(work),
    take: (request, owner) =>
      write((db) => {
        const now = clock.now();
        const found = findSlot(db, request, now);
        if (found === undefined) putInFlight(db, request, owner, now + leaseMs);
        return found;
      }),
    find: (request) => write((db) => findSlot(db, request, clock.now())),
    put: (request, response) =>
      write((db) => putResponse(db, request, response, clock.now() + keptMs)),
    forget: ({ apiKeyId, key }) =>
      write((db) => {
        db.prepare("DELETE FROM idempotency_slots WHERE api_key_id = ? AND key = ?").run(
          apiKeyId,
          key,
        );
      }),
    finish: (owner, { status, contentType, contentEncoding, body }) =>
      write((db) => {
        const until = clock.now() + keptMs;
        const { changes } = db
          .prepare(
            `UPDATE idempotency_slots
             SET owner = NULL, until = ?, status = ?, content_type = ?, content_encoding = ?, body = ?
             WHERE owner = ?`,
          )
          .run(until, status, contentType ?? null, contentEncoding ?? null, body, owner);
        return changes === 1;
      }),
    release: (owner) =>
      write((db) => void db.prepare("DELETE FROM idempotency_slots WHERE owner = ?").run(owner)),
    renew: (owners) =>
      write((db) => {
        const until = clock.now() + leaseMs;
        const renew = db.prepare("UPDATE idempotency_slots SET until = ? WHERE owner = ?");
        for (const owner of owners) renew.run(until, owner);
      }),
    sweep: (max) =>
      write((db) => {
        const { changes } = db
          .prepare(
            `DELETE FROM idempotency_slots WHERE rowid IN
               (SELECT rowid FROM idempotency_slots WHERE until <= ? LIMIT ?)`,
          )
          .run(clock.now(), max);
        return Number(changes);
      }),
  };
}

function findSlot(
  db: DatabaseSync,
  request: IdempotentRequest,
  now: number,
): NotRunReason | undefined {
  const row = db
    .prepare("SELECT * FROM idempotency_slots WHERE api_key_id = ? AND key = ?")
    .get(request.apiKeyId, request.key);
  if (row === undefined || number(row, "until") <= now) return undefined;
  return notRunFromRow(request, row);
}

function putInFlight(
  db: DatabaseSync,
  { apiKeyId, key, fingerprint }: IdempotentRequest,
  owner: string,
  until: number,
): void {
  db.prepare(
    `INSERT OR REPLACE INTO idempotency_slots (api_key_id, key, fingerprint, owner, until)
     VALUES (?, ?, ?, ?, ?)`,
  ).run(apiKeyId, key, fingerprint, owner, until);
}

function putResponse(
  db: DatabaseSync,
  { apiKeyId, key, fingerprint }: IdempotentRequest,
  { status, contentType, contentEncoding, body }: StoredResponse,
  until: number,
): void {
  const given = [status, contentType ?? null, contentEncoding ?? null, body] as const;
  db.prepare(
    `INSERT OR REPLACE INTO idempotency_slots
       (api_key_id, key, fingerprint, until, status, content_type, content_encoding, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(apiKeyId, key, fingerprint, until, ...given);
}
