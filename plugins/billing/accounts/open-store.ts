/** Opens the accounts of a gateway on its tables. */
import type { Store } from "sluice-gateway/plugin";
import type { AccountStore } from "./account-store.ts";
import { refuseUnmoved } from "./earlier-folder.ts";
import { joinTransactions } from "./joined-sql.ts";
import type { SlotStore } from "./slot-store.ts";
import { createSlots } from "./slots.ts";
import { openAccountStore } from "./sql-account-store.ts";

export interface OpenStore {
  readonly store: AccountStore;
  readonly slots: SlotStore;
}

/** Rejects with a StoreError. */
export async function openGatewayStore(tables: Store): Promise<OpenStore> {
  const { folder, postgres: shared } = tables;
  if (shared !== undefined) refuseUnmoved(folder);
  const joined = joinTransactions(tables.sql("accounts"));
  const store = await openAccountStore({ sql: joined, isShared: shared !== undefined });
  await store.loadHashes();
  return { store, slots: createSlots(joined) };
}
