/** Interprets a row of `idempotency_slots`. The columns have the same names in every database. */
import type { IdempotentRequest, NotRunReason } from "sluice-gateway/services";
import { blob, optionalNumber, optionalText, text, type Row } from "sluice-gateway/store";

/** Returns the reason why the request must not run. `row`: the slot of the request, which has not expired. */
export function notRunFromRow({ fingerprint }: IdempotentRequest, row: Row): NotRunReason {
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
