/** Opens the accounts database and puts the service `accounts` together. */
import type { Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type { Accounts } from "sluice-gateway/services";
import { openAccounts, type AccountsService } from "./accounts.ts";
import { createAdmin } from "./admin.ts";
import { openIdempotency } from "./idempotency.ts";
import { replaceOverrides } from "./model-overrides.ts";
import { plansOf, type Options } from "./options.ts";
import type { Plans } from "./principal.ts";
import { createTickets } from "./tickets.ts";
import { createWorkspaces } from "./workspaces-service.ts";

export interface RunningAccounts extends Accounts {
  /** Sets the plans of a reloaded pipeline.yaml. */
  setPlans(plans: Plans): void;
}

export function startAccounts(
  options: Options,
  host: Host,
  { keep }: ServiceContext,
): ServiceHooks<RunningAccounts> {
  const { clock, log, environment, seal, claims, compute } = host;
  const dataDir = host.store.folder;
  const plans = plansOf(options);
  const accounts = keep(
    "database",
    () => openAccounts({ dataDir, environment, plans, clock, log }),
    (opened) => opened.close(),
  );
  const idempotency = keep(
    "idempotency",
    () => openIdempotency({ accounts, clock, log }),
    (opened) => opened.close(),
  );
  const metering = host.use("metering");
  const purchasedLeft: typeof metering.purchasedLeft = (workspace) =>
    metering.purchasedLeft(workspace);
  const reports = compute.background;
  return {
    service: {
      identify: (authorization, address) => accounts.identify(authorization, address),
      identifyKey: (keyId, address) => accounts.identifyKey(keyId, address),
      workspaces: createWorkspaces({ dataDir, accounts, purchasedLeft, reports, clock, log }),
      idempotency,
      tickets: createTickets({ seal, claims, accounts, clock }),
      admin: createAdmin({ accounts, purchasedLeft, clock }),
      overrides: (network) => accounts.overrides(network),
      replaceOverrides: overridesStore(accounts, host),
      setPlans: (changed) => accounts.setPlans(changed),
    },
    ready: () => ({ accounts: accounts.stats().healthy ? true : "not readable" }),
  };
}

function overridesStore(
  accounts: AccountsService,
  { clock, log }: Host,
): Accounts["replaceOverrides"] {
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
