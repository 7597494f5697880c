/** Runs several replicas on one PostgreSQL and one Redis under load, injects faults, and checks the history. */
import { setTimeout as wait } from "node:timers/promises";
import { runSql } from "../../store/servers.ts";
import { createAccounts, rateLimit, type Accounts } from "./accounts.ts";
import { readAudit, startAudit, type Audit } from "./audit.ts";
import { check, type Violations } from "../../checker/checker.ts";
import { onceOnly, readOnce, runClients, type Known } from "./clients.ts";
import { deploy, type CampaignPrograms, type Deployment } from "./deployment.ts";
import { figuresOf, type Figures } from "./figures.ts";
import type { Disruption, History } from "../../checker/history.ts";
import { applyMutant, type MutantName } from "./mutants.ts";
import { redisDisruptions } from "./redis-disruptions.ts";
import { runFaults, type DoneFault } from "./run-faults.ts";
import { planFaults, type Fault, type FaultSet } from "./schedule.ts";
import { createSender, now, type Sender } from "./send.ts";

export interface CampaignOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly replicas: number;
  readonly programs: CampaignPrograms;
  readonly faults?: FaultSet;
  readonly readers?: number | undefined;
  readonly mutant?: MutantName;
  readonly onFault?: (fault: Fault) => void;
}

export interface CampaignResult {
  readonly figures: Figures;
  readonly violations: Violations;
  /** Replicas that ended by themselves, did not serve again, did not stop, or did not give back their credit. */
  readonly crashes: readonly string[];
  readonly errors: Readonly<Record<string, number>>;
  /** Valid confirmation tokens that a replica refused, because its clock was wrong. */
  readonly refusedTokens: number;
  /** Number of times at which Redis could not be reached, was slow or was empty. */
  readonly redisDisruptions: number;
}

/** Minimum time in which the clients spend a limited key or a small workspace. */
const shareMs = 10_000;
const revocationMs = 4_000;
const calmMs = 3_000;
/** A charge that may have been committed is waited for by its gateway for 30 seconds. */
const answerLimitMs = 45_000;

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { minutes, seed, replicas, programs, faults = "all", onFault = () => {} } = options;
  const durationMs = minutes * 60_000;
  await using deployment = await deploy(programs, replicas);
  const { postgres, slots, redisOutages, transfers } = deployment;
  const limited = Math.max(2, Math.round(durationMs / shareMs));
  const toRevoke = Math.ceil(durationMs / revocationMs);
  await using accounts = await createAccounts(postgres.url, { limited, toRevoke });
  await startAudit(postgres.url, accounts.scopes);
  if (options.mutant !== undefined) await applyMutant(postgres.url, options.mutant);
  using sender = createSender(slots);
  const over = new AbortController();
  const context = { accounts, sender, replicas, readers: options.readers, signal: over.signal };
  const running = runClients(context, seed);
  let done: readonly DoneFault[];
  try {
    const planned = planFaults(seed, durationMs, replicas, faults);
    done = await runFaults(deployment, planned, onFault);
    await wait(calmMs);
  } finally {
    over.abort();
  }
  const known = await running;
  const crashes = [...deployment.crashes];
  crashes.push(...(await waitForCredit(deployment)));
  crashes.push(...(await waitForAnswers(deployment, sender, accounts)));
  if (crashes.length === 0) crashes.push(...(await spendTheRest(known, sender, replicas)));
  crashes.push(...(await stopAll(deployment)));
  const audit = await readAudit(postgres.primary.url);
  const once = onceOnly(known, audit.purchases, transfers);
  const disruptions = redisDisruptions(done, redisOutages.all(now()));
  const worked = deployment.worked();
  const history = historyOf({ accounts, sender, audit, worked, known, once, disruptions, done });
  const violations = check(history);
  return {
    figures: figuresOf(history, violations, audit, done),
    violations,
    crashes,
    errors: Object.fromEntries(deployment.errors),
    refusedTokens: known.refusedTokens,
    redisDisruptions: disruptions.length,
  };
}

function historyOf(parts: {
  readonly accounts: Accounts;
  readonly sender: Sender;
  readonly audit: Audit;
  readonly worked: readonly string[];
  readonly known: Known;
  readonly once: History["onceOnly"];
  readonly disruptions: readonly Disruption[];
  readonly done: readonly DoneFault[];
}): History {
  const { accounts, sender, audit, worked, known, once, disruptions, done } = parts;
  const { charges, exceeded, sums, purchased } = audit;
  return {
    calls: sender.calls,
    charges,
    worked,
    exceeded,
    sums,
    scopes: accounts.scopes.map((scope) => ({
      ...scope,
      limitMilliCu: scope.limitMilliCu + (purchased.get(scope.id) ?? 0),
    })),
    onceOnly: once,
    revocations: known.revocations,
    faults: done.map(({ begunAt, repairedAt }) => ({ from: begunAt, to: repairedAt })),
    rates: [{ keyId: accounts.slow.keyId, ...rateLimit, disruptions }],
  };
}

/** Waits until only running replicas hold credit. Returns a description of the problem after one minute. */
async function waitForCredit({ postgres, slots }: Deployment): Promise<string[]> {
  const names = slots.map(({ name }) => `'${name}'`).join(", ");
  const statement = `SELECT name FROM sluice.leases l JOIN sluice.replicas r ON r.id = l.replica
    WHERE name NOT IN (${names}) OR state <> 'live'`;
  for (let turns = 0; turns < 600; turns++) {
    if ((await runSql(postgres.primary.url, statement)).length === 0) return [];
    await wait(100);
  }
  return ["a minute after the last fault, replicas that have ended still hold credit"];
}

/** Waits until every replica answers a call that costs something. Returns a sentence for each one that does not. */
async function waitForAnswers(
  { slots }: Deployment,
  sender: Sender,
  { rich }: Accounts,
): Promise<string[]> {
  const answers = async (slot: number): Promise<boolean> => {
    const begun = now();
    while (now() - begun < answerLimitMs) {
      if ((await readOnce(sender, slot, rich)).status === 200) return true;
      await wait(100);
    }
    return false;
  };
  const all = await Promise.all(slots.map((_, slot) => answers(slot)));
  return all.flatMap((answered, slot) =>
    answered ? [] : [`${slots[slot]?.name ?? ""} does not serve again after the last fault`],
  );
}

/** Spends the rest of the limited credit, so that none is stranded. Returns a sentence per key that was not refused. */
async function spendTheRest(known: Known, sender: Sender, replicas: number): Promise<string[]> {
  const unspent: string[] = [];
  const keys = [known.limitedKeys, known.smallWorkspaces].flatMap((spending) =>
    spending.keys.slice(0, spending.at + 1),
  );
  const spend = async (): Promise<void> => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      let isRefused = false;
      for (let turns = 0; turns < 1_000 && !isRefused; turns++) {
        const { status } = await readOnce(sender, turns % replicas, key);
        isRefused = status === 429;
        if (!isRefused && status !== 200) await wait(100);
      }
      if (!isRefused) unspent.push(`${key.keyId} could not be spent until it was refused`);
    }
  };
  await Promise.all(Array.from({ length: 8 }, spend));
  return unspent;
}

/** Returns a sentence for each replica that did not end as expected. */
async function stopAll({ slots, postgres }: Deployment): Promise<string[]> {
  const names = slots.map(({ name }) => name);
  const codes = await Promise.all(
    slots.map(async (slot) => {
      const { process } = slot;
      slot.process = undefined;
      process?.child.kill("SIGTERM");
      const [code, signal] = (await process?.exited) ?? [];
      return code ?? signal;
    }),
  );
  const held = await runSql(postgres.primary.url, "SELECT DISTINCT replica FROM sluice.leases");
  return [
    ...codes.flatMap((code, slot) =>
      code === 0 ? [] : [`${names[slot] ?? ""} did not stop in order: ${String(code)}`],
    ),
    ...(held.length === 0 ? [] : ["replicas that stopped in order left credit behind"]),
  ];
}
