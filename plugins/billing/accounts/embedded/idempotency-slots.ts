/** Slots of idempotency keys in the accounts database. Call these functions in a transaction. */
import type { DatabaseSync } from "node:sqlite";
import type { IdempotentRequest, NotRun, StoredResponse } from "sluice-gateway/services";
import { blob, number, optionalNumber, optionalText, text } from "sluice-gateway/store";

const inFlight = { kind: "inFlight" } as const;
const mismatch = { kind: "mismatch" } as const;

/** Returns the reason why the request must not run. Undefined if it has no slot, or if its slot has expired. */
export function findSlot(
  db: DatabaseSync,
  { apiKeyId, key, fingerprint }: IdempotentRequest,
  now: number,
): NotRun | undefined {
  const row = db
    .prepare("SELECT * FROM idempotency_slots WHERE api_key_id = ? AND key = ?")
    .get(apiKeyId, key);
  if (row === undefined || number(row, "until") <= now) return undefined;
  const status = optionalNumber(row, "status");
  if (status === undefined) return inFlight;
  if (text(row, "fingerprint") !== fingerprint) return mismatch;
  const response = {
    status,
    contentType: optionalText(row, "content_type"),
    contentEncoding: optionalText(row, "content_encoding"),
    body: blob(row, "body"),
  };
  return { kind: "replay", response };
}

/** Takes the slot for `owner`, and replaces any earlier owner. */
export function putInFlight(
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

/** Stores the response, whether or not the slot has an owner. */
export function putResponse(
  db: DatabaseSync,
  { apiKeyId, key, fingerprint }: IdempotentRequest,
  { status, contentType, contentEncoding, body }: StoredResponse,
  until: number,
): void {
  db.prepare(
    `INSERT OR REPLACE INTO idempotency_slots
       (api_key_id, key, fingerprint, until, status, content_type, content_encoding, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
  ).run(
    apiKeyId,
    key,
    fingerprint,
    until,
    status,
    contentType ?? null,
    contentEncoding ?? null,
    body,
  );
}

/** Deletes the slot, so that a repeated request runs again. */
export function forget(db: DatabaseSync, { apiKeyId, key }: IdempotentRequest): void {
  db.prepare("DELETE FROM idempotency_slots WHERE api_key_id = ? AND key = ?").run(apiKeyId, key);
}
