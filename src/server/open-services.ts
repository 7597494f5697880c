/** Opens what outlives every generation: the data folder, accounts, meter, claims, the compute pool. */
import { mkdirSync } from "node:fs";
import { openAccounts, type AccountsService } from "../accounts/accounts.ts";
import { openIdempotency } from "../accounts/idempotency.ts";
import { replaceOverrides } from "../accounts/model-overrides.ts";
import { createTickets } from "../accounts/tickets.ts";
import { createWorkspaces } from "../accounts/workspaces-service.ts";
import { openComputePool } from "../compute/pool.ts";
import {
  collateralFile,
  collateralService,
  type CollateralSource,
} from "../confidential/evidence/collateral.ts";
import { createEvidenceService } from "../confidential/evidence/evidence-service.ts";
import { createQuoteLimit } from "../confidential/relay/quote-limit.ts";
import { Receipts } from "../confidential/relay/receipts.ts";
import { Retries } from "../confidential/relay/retries.ts";
import { createSessionNames } from "../confidential/relay/session-names.ts";
import type { Config } from "../config/config.ts";
import { createEnclaveRecords } from "../inference/enclave/transport.ts";
import { Network } from "../inference/network.ts";
import type { StoreOverrides } from "../inference/networks.ts";
import { createDecoder } from "../ledger/decode/decoder.ts";
import { openLedger } from "../ledger/ledger.ts";
import { openPool } from "../ledger/pool/pool.ts";
import { createMetrics, type RenderedMetrics } from "../metrics.ts";
import { openUsageExport } from "../metering/export/open.ts";
import { openMeter, type MeterService } from "../metering/meter.ts";
import type { Services } from "../pipeline/services.ts";
import type { Clock, Log, Workspace } from "../plugin.ts";
import { openClaims } from "../store/claims.ts";
import { lockStore } from "../store/lock.ts";
import { createSeal, keptSecret } from "../store/seal.ts";
import { confidentialOpener } from "./open-confidential.ts";

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
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  stack: AsyncDisposableStack,
): Promise<OpenServices> {
  const { environment, plans, secret, simulatedAllowed } = config;
  const { data: dataDir } = config.store;
  const { durability, export: settings } = config.metering;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  stack.use(lockStore(dataDir));
  const metrics = createMetrics();
  const accounts = openAccounts({ dataDir, environment, plans, clock, log });
  stack.defer(() => accounts.close());
  const idempotency = openIdempotency({ accounts, clock, log });
  stack.defer(() => idempotency.close());
  const meter = await openMeter({ dataDir, durability, clock, log, metrics });
  stack.defer(() => meter.close());
  if (settings !== undefined) {
    const usageExport = openUsageExport({ dataDir, settings, clock, log, metrics });
    stack.defer(() => usageExport.close());
  }
  const claims = openClaims(dataDir, clock);
  stack.defer(() => claims.close());
  const compute = openComputePool({ clock, metrics });
  stack.defer(() => compute.close());
  // Of its own, for one report at a time: decoding must not wait for the sum of a month.
  const reports = openComputePool({ clock, metrics, threads: 1, queue: 8, timeoutMs: 30_000 });
  stack.defer(() => reports.close());
  const purchasedLeft = (workspace: Workspace): number => meter.purchasedLeft(workspace);
  const workspaces = { dataDir, accounts, purchasedLeft, reports, clock, log };
  const overrides = (network: string) => accounts.overrides(network);
  const enclaves = createEnclaveRecords();
  const deploymentSecret = secret ?? keptSecret(dataDir);
  const seal = createSeal(deploymentSecret);
  const evidence = createEvidenceService({
    clock,
    log,
    simulatedAllowed,
    collateral: collateralOf(config, clock),
  });
  const receiptsPool = openComputePool({ clock, metrics, threads: 1 });
  stack.defer(() => receiptsPool.close());
  const receipts = new Receipts(dataDir, clock, receiptsPool);
  stack.defer(() => receipts.close());
  return {
    log,
    clock,
    metrics,
    accounts,
    workspaces: createWorkspaces(workspaces),
    idempotency,
    meter,
    claims,
    evidence,
    seal,
    openLedger(upstream) {
      const shared = { upstream, clock, log, metrics };
      return openLedger({ ...shared, pool: openPool(shared) });
    },
    openNetwork: (network) => new Network(network, { clock, log, metrics, overrides, enclaves }),
    storeOverrides: overridesStore(accounts, clock, log),
    tickets: createTickets({ seal, claims, accounts, clock }),
    openConfidential: confidentialOpener({
      clock,
      log,
      metrics,
      ...enclaves,
      receipts,
      retries: new Retries(clock),
      quotes: createQuoteLimit(clock),
      names: createSessionNames(receipts),
      sessions: { open: 0 },
      evidence,
      secret: deploymentSecret,
    }),
    openDecoder: (ledger) => createDecoder({ ledger, compute, clock }),
  };
}

function overridesStore(accounts: AccountsService, clock: Clock, log: Log): StoreOverrides {
  return (network, models, { actor, requestId }) => {
    try {
      const by = { actor, requestId, at: clock.now() };
      accounts.write((db) => replaceOverrides(db, network, models, by));
      return true;
    } catch (error) {
      log.error({ err: error, network }, "the models of a network could not be changed");
      return false;
    }
  };
}

function collateralOf({ collateral }: Config, clock: Clock): CollateralSource | undefined {
  const { file, pccs } = collateral;
  if (file !== undefined) return collateralFile(file);
  return pccs === undefined ? undefined : collateralService(pccs, clock);
}
