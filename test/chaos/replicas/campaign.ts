/**
 * Runs several replicas on one PostgreSQL and one Redis under load, injects faults, and checks the history. The seed
 * decides the faults, their order and their times.
 */
import { setTimeout as wait } from "node:timers/promises";
import { runSql } from "../../store/servers.ts";
import { createAccounts, rateLimit, type Accounts } from "./accounts.ts";
import { readAudit, startAudit, type Audit } from "./audit.ts";
import { check, type Violations } from "./checker.ts";
import { onceOnly, readOnce, runClients, type Known } from "./clients.ts";
import { deploy, type CampaignPrograms, type Deployment } from "./deployment.ts";
import { figuresOf, silencesOf, type Figures } from "./figures.ts";
import type { History, Interval } from "./history.ts";
import { runFaults, type DoneFault } from "./run-faults.ts";
import { planFaults, type Fault } from "./schedule.ts";
import { createSender, type Sender } from "./send.ts";

export interface CampaignOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly replicas: number;
  readonly programs: CampaignPrograms;
  readonly onFault?: (fault: Fault) => void;
}

export interface CampaignResult {
  readonly figures: Figures;
  readonly violations: Violations;
  /** Replicas that ended by themselves, did not stop, or left credit behind. */
  readonly crashes: readonly string[];
  /** Number of lines that replicas logged at level error, by message. */
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

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const { minutes, seed, replicas, programs, onFault = () => {} } = options;
  const durationMs = minutes * 60_000;
  await using deployment = await deploy(programs, replicas);
  const { postgres, slots, redisWarnings, transfers } = deployment;
  const limited = Math.max(2, Math.round(durationMs / shareMs));
  const toRevoke = Math.ceil(durationMs / revocationMs);
  await using accounts = await createAccounts(postgres.url, { limited, toRevoke });
  await startAudit(postgres.url, accounts.scopes);
  using sender = createSender(slots);
  const over = new AbortController();
  const context = { accounts, sender, replicas, signal: over.signal };
  const running = runClients(context, seed);
  let done: readonly DoneFault[];
  try {
    done = await runFaults(deployment, planFaults(seed, durationMs, replicas), onFault);
    await wait(calmMs);
  } finally {
    over.abort();
  }
  const known = await running;
  const crashes = [...deployment.crashes];
  crashes.push(...(await waitForCredit(deployment)));
  await spendTheRest(known, sender, replicas);
  crashes.push(...(await stopAll(deployment)));
  const audit = await readAudit(postgres.primary.url);
  const once = onceOnly(known, audit.purchases, transfers);
  const disruptions = redisDisruptions(done, redisWarnings);
  const history = historyOf({ accounts, sender, audit, known, done, once, disruptions });
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
  readonly known: Known;
  readonly done: readonly DoneFault[];
  readonly once: History["onceOnly"];
  readonly disruptions: readonly Interval[];
}): History {
  const { accounts, sender, audit, known, done, once, disruptions } = parts;
  const { charges, holdings, exceeded, sums, purchased } = audit;
  const { burst } = rateLimit;
  return {
    calls: sender.calls,
    charges,
    holdings,
    exceeded,
    sums,
    scopes: accounts.scopes.map((scope) => ({
      ...scope,
      limitMilliCu: scope.limitMilliCu + (purchased.get(scope.id) ?? 0),
    })),
    onceOnly: once,
    revocations: known.revocations,
    // If Redis loses its data, callers gain a full burst and the held tokens. An outage adds at most one burst.
    rates: [
      { keyId: accounts.slow.keyId, ...rateLimit, disruptions, extra: 2 * burst + burst / 4 },
    ],
    silences: silencesOf(done, audit),
  };
}

/** Maximum time between the warnings of two replicas about the same outage. */
const sameOutageMs = 1_500;

/** The faults of Redis, and the times at which a busy machine made it look slow. */
function redisDisruptions(done: readonly DoneFault[], warnings: readonly number[]): Interval[] {
  const faults = done.filter(({ kind }) => kind.endsWith("Redis"));
  const all = [
    ...faults.map(({ begunAt, repairedAt }) => ({ from: begunAt, to: repairedAt + 1_000 })),
    ...warnings.map((at) => ({ from: at - 1_000, to: at + 2_000 })),
  ].toSorted((left, right) => left.from - right.from);
  const merged: Interval[] = [];
  for (const each of all) {
    const last = merged.at(-1);
    if (last === undefined || each.from - last.from > sameOutageMs) merged.push(each);
    else merged.splice(-1, 1, { from: last.from, to: Math.max(last.to, each.to) });
  }
  return merged;
}

/**
 * Waits until only running replicas hold credit. Returns a description of the problem if that takes longer than a
 * minute.
 */
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

/** Spends what is left of the limited credit. The refusals at the end show that none is stranded. */
async function spendTheRest(known: Known, sender: Sender, replicas: number): Promise<void> {
  const keys = [known.limitedKeys, known.smallWorkspaces].flatMap((spending) =>
    spending.keys.slice(0, spending.at + 1),
  );
  const spend = async (): Promise<void> => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      for (let turns = 0; turns < 1_000; turns++) {
        const { status } = await readOnce(sender, turns % replicas, key);
        if (status === 429) break;
        if (status !== 200) await wait(100);
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, spend));
}

/** Stops all replicas in an orderly way. Returns a sentence for each one that did not end as expected. */
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
