/** Opens what outlives every generation: the data folder, accounts, meter, claims, the compute pool. */
import { openAccounts, type AccountsService } from "../../plugins/billing/accounts/accounts.ts";
import { openIdempotency } from "../../plugins/billing/accounts/idempotency.ts";
import { replaceOverrides } from "../../plugins/billing/accounts/model-overrides.ts";
import { createTickets } from "../../plugins/billing/accounts/tickets.ts";
import { createWorkspaces } from "../../plugins/billing/accounts/workspaces-service.ts";
import { openComputePool } from "../compute/pool.ts";
import type { Config } from "../config/config.ts";
import { createMetrics, type RenderedMetrics } from "../metrics.ts";
import { openMeter, type MeterService } from "../../plugins/billing/metering/meter.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import { KeptParts } from "../pipeline/load/kept-parts.ts";
import type { Services } from "../pipeline/load/services.ts";
import type { Clock, GatewayInfo, Log, Metrics, ModelOverrides, Workspace } from "../plugin.ts";
import { openClaims } from "../store/claims.ts";
import { lockStore } from "../store/lock.ts";
import { createSeal, keptSecret } from "../store/seal.ts";

export interface OpenServices extends Services {
  readonly metrics: RenderedMetrics;
  readonly accounts: AccountsService;
  readonly meter: MeterService;
}

/**
 * Everything opened is closed through `stack`, in reverse order. Throws StoreError when the data folder cannot be used,
 * or when another gateway uses it.
 */
export async function openServices(
  config: Config,
  {
    clock,
    log,
    gateway,
  }: { readonly clock: Clock; readonly log: Log; readonly gateway: GatewayInfo },
  stack: ClosingStack,
): Promise<OpenServices> {
  const metrics = createMetrics();
  const shared = { clock, log, metrics };
  const { accounts, idempotency, meter, claims } = await openStores(config, shared, stack);
  const compute = openComputePool({ clock, metrics });
  stack.add("compute threads", () => compute.close());
  // Of its own, for one report at a time: decoding must not wait for the sum of a month.
  const reports = openComputePool({ clock, metrics, threads: 1, queue: 8, timeoutMs: 30_000 });
  stack.add("threads of usage reports", () => reports.close());
  const { data: dataDir } = config.store;
  const purchasedLeft = (workspace: Workspace): number => meter.purchasedLeft(workspace);
  const seal = createSeal(config.secret ?? keptSecret(dataDir));
  return {
    ...shared,
    accounts,
    workspaces: createWorkspaces({ dataDir, accounts, purchasedLeft, reports, clock, log }),
    idempotency,
    meter,
    claims,
    seal,
    tickets: createTickets({ seal, claims, accounts, clock }),
    store: { folder: dataDir },
    compute: { run: (job) => compute.run(job), background: reports },
    parts: new KeptParts(),
    gateway,
    modelOverrides: {
      overrides: (network) => accounts.overrides(network),
      replaceOverrides: overridesStore(accounts, clock, log),
    },
  };
}

/** What is on disk: the lock of the data folder, then the databases in it. */
async function openStores(
  { environment, plans, store, metering }: Config,
  shared: { readonly clock: Clock; readonly log: Log; readonly metrics: Metrics },
  stack: ClosingStack,
) {
  const { clock, log } = shared;
  const { data: dataDir } = store;
  stack.use(lockStore(dataDir));
  const accounts = openAccounts({ dataDir, environment, plans, clock, log });
  stack.add("accounts", () => accounts.close());
  const idempotency = openIdempotency({ accounts, clock, log });
  stack.add("idempotency", () => idempotency.close());
  const meter = await openMeter({ dataDir, durability: metering.durability, ...shared });
  stack.add("charge journal", () => meter.close());
  if (metering.export !== undefined) {
    const { openUsageExport } = await import("../../plugins/billing/metering/export/open.ts");
    const usageExport = openUsageExport({ dataDir, settings: metering.export, ...shared });
    stack.add("usage export", () => usageExport.close());
  }
  const claims = openClaims(dataDir, clock);
  stack.add("claims", () => claims.close());
  return { accounts, idempotency, meter, claims };
}

function overridesStore(
  accounts: AccountsService,
  clock: Clock,
  log: Log,
): ModelOverrides["replaceOverrides"] {
  return (network, models, { actor, requestId }) => {
    try {
      const by = { actor, requestId, at: clock.now() };
      accounts.write((db) => replaceOverrides(db, network, models, by));
      return true;
    } catch (error) {
      log.error({ err: error, network }, "cannot change the models of a network");
      return false;
    }
  };
}
