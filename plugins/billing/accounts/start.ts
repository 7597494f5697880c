import type { Host, ServiceContext, ServiceHooks, Store } from "sluice-gateway/plugin";
import { setPrincipal, type Accounts } from "sluice-gateway/services";
import type { AccountStore } from "./account-store.ts";
import { AccountsService } from "./accounts.ts";
import { createAdmin, createWorkspaces, type RunningAccounts } from "./workspaces-service.ts";
import { followerMark } from "./change-log.ts";
import { refuseUnmoved, openAccountStore } from "./sql-account-store.ts";
import { LeasedSlots } from "./idempotency.ts";
import { joinTransactions } from "./joined-sql.ts";
import type { Plans } from "./principal.ts";
import { createSlots, type SlotStore } from "./slots.ts";
import { readForOtherThreads, readInOtherThreads } from "./thread-changes.ts";
import { createTickets } from "./tickets.ts";

export async function startAccounts(
  plans: Plans,
  host: Host,
  { keep }: ServiceContext,
): Promise<ServiceHooks<RunningAccounts>> {
  const { clock, log, environment, seal, claims, threads } = host;
  const metering = host.use("metering");
  const { store, slots, accounts } = await keep(
    "database",
    async () => {
      const { outageMs } = metering;
      const { session, replicas } = host.store;
      const opened = await openGatewayStore(host.store);
      const running = await AccountsService.open({
        store: opened.store,
        session,
        onApplied: (change) => replicas?.mark(followerMark, change),
        environment,
        plans,
        clock,
        log,
        ...(outageMs !== undefined && { maxStaleMs: outageMs }),
        ...(threads !== undefined && { onCommit: () => readInOtherThreads(threads, clock) }),
      });
      const served = threads && readForOtherThreads(threads, () => running.refresh());
      return { ...opened, accounts: running, served };
    },
    async (opening) => {
      const opened = await opening.catch(() => undefined);
      opened?.served?.[Symbol.dispose]();
      await opened?.accounts.close();
    },
  );
  const idempotency = keep(
    "idempotency",
    () => new LeasedSlots({ slots, clock, log }),
    (opened) => opened.close(),
  );
  const operations = { store, metering, clock, log };
  return {
    service: {
      identify: (authorization, address) => accounts.identify(authorization, address),
      identifyKey: (keyId, address) => accounts.identifyKey(keyId, address),
      identifyAgain: (principal, address) => accounts.identifyAgain(principal, address),
      identifyClaims: (received) => accounts.identifyClaims(received),
      setPrincipal,
      workspaces: createWorkspaces(operations),
      idempotency,
      tickets: createTickets({ seal, claims, accounts, log }),
      admin: createAdmin(operations, (name) => accounts.plan(name)),
      overrides: (network) => accounts.overrides(network),
      replaceOverrides: overridesStore(store, host),
      setPlans: (changed) => accounts.setPlans(changed),
    },
    ready: () => ({ accounts: accounts.isReady() ? true : "not readable" }),
  };
}

async function openGatewayStore(
  tables: Store,
): Promise<{ readonly store: AccountStore; readonly slots: SlotStore }> {
  const { folder, postgres: shared } = tables;
  if (shared !== undefined) refuseUnmoved(folder);
  const joined = joinTransactions(tables.sql("accounts"));
  const store = await openAccountStore(joined, shared !== undefined);
  await store.loadHashes();
  return { store, slots: createSlots(joined) };
}

function overridesStore(store: AccountStore, { clock, log }: Host): Accounts["replaceOverrides"] {
  return async (network, models, { actor, requestId }) => {
    try {
      await store.replaceOverrides(network, models, { actor, requestId, at: clock.now() });
      return true;
    } catch (error) {
      log.error({ err: error, network }, "cannot change the models of a network");
      return false;
    }
  };
}
