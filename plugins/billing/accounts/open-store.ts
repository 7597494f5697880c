/** Opens the accounts of a gateway: in PostgreSQL if `store.postgres` is set, else in the data folder. */
import type { Clock, Store } from "sluice-gateway/plugin";
import type { AccountStore } from "./account-store.ts";
import type { SlotStore } from "./slot-store.ts";

export interface OpenStore {
  readonly store: AccountStore;
  readonly slots: SlotStore;
  /** See `AccountFeedDeps`. */
  readonly maxStaleMs: number | undefined;
}

/** `outageMs`: see `Metering`. Fails with a StoreError. */
export async function openGatewayStore(
  { folder, postgres: database }: Store,
  clock: Clock,
  outageMs: number | undefined,
): Promise<OpenStore> {
  if (database === undefined) {
    const { openGatewayAccountStore } = await import("./embedded/embedded-account-store.ts");
    const { embeddedSlots } = await import("./embedded/embedded-slots.ts");
    const store = openGatewayAccountStore(folder, clock);
    return { store, slots: embeddedSlots(store, clock), maxStaleMs: undefined };
  }
  const { refuseUnmoved } = await import("./embedded/unmoved.ts");
  refuseUnmoved(folder);
  const { openPostgresAccountStore } = await import("./postgres/postgres-account-store.ts");
  const { postgresSlots } = await import("./postgres/postgres-slots.ts");
  const store = await openPostgresAccountStore(database, clock);
  await store.loadHashes();
  return { store, slots: postgresSlots(store.transactions), maxStaleMs: outageMs };
}
