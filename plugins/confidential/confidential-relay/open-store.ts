/** Opens the store of the encrypted stream: in PostgreSQL if `store.postgres` is set, else in the data folder. */
import type { Host } from "sluice-gateway/plugin";
import { openReceipts } from "./receipts.ts";
import { MemoryRetryCredits } from "./retry-credits.ts";
import { createSessionIds } from "./session-ids.ts";
import type { StreamStore } from "./stream-store.ts";

/** Fails with a StoreError. In the data folder, the ids of open sessions and the credits are in memory. */
export async function openStreamStore(
  host: Pick<Host, "clock" | "log" | "metrics" | "store">,
): Promise<StreamStore> {
  const { clock, log, metrics, store } = host;
  const { postgres: database } = store;
  if (database !== undefined) {
    const { openPostgresStreamStore } = await import("./postgres/open.ts");
    return openPostgresStreamStore({ database, clock, log, metrics });
  }
  const receipts = openReceipts(host);
  return {
    receipts,
    sessionIds: createSessionIds(receipts),
    retryCredits: new MemoryRetryCredits(clock, metrics),
    close: () => receipts.close(),
  };
}
