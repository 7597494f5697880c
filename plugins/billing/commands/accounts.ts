import { userInfo } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { systemClock, type CommandContext } from "sluice-gateway/internal/module";
import {
  openCommandStore,
  printFault,
  readPipeline,
  storeFault,
  type Config,
  type Fault,
} from "sluice-gateway/internal/process";
import type { ChangeAuthor, Failed, Metering, Workspace } from "sluice-gateway/services";
import { explain } from "sluice-gateway/internal/store";
import type { AccountStore, Follower } from "../accounts/account-store.ts";
import { refuseUnmoved, openAccountStore } from "../accounts/sql-account-store.ts";
import { joinTransactions } from "../accounts/joined-sql.ts";
import { createUsageQueries } from "../leases/usage-queries.ts";
import { readPurchasedDrawn } from "../metering/usage/folder-charges.ts";

const maxWaitMs = 2_000;
const askEveryMs = 50;
/** A gateway that has been silent for this time has ended, or refuses every key because it cannot read the database. */
const endedAfterMs = 10_000;

/** A record to print: flat, without members that have no value. */
export type Flat = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface OpenAccounts extends OpenStore {
  readonly config: Config;
  readonly by: ChangeAuthor;
}

interface OpenStore {
  readonly store: AccountStore;
  /** Fails with StoreError. */
  readonly purchasedLeft: Metering["purchasedLeft"];
}

const sectionsRead: ReadonlySet<string | undefined> = new Set([
  undefined,
  "version",
  "environment",
  "store",
  "plans",
]);

/**
 * Codes of faults that stop the command in every section: the file as a whole could not be read, or it configures a
 * shared store.
 */
const alwaysConcern = /^SLUICE_((FILE|YAML|ENV)_|NOT_SUPPORTED$)/;

function concerns(config: Config, { code, at }: Fault): boolean {
  return at === undefined || alwaysConcern.test(code) || sectionsRead.has(config.sectionOf(at));
}

/**
 * Runs `work` on the accounts of pipeline.yaml, in PostgreSQL or in the data folder; a gateway may use them at the same
 * time. Prints the reason and resolves to 1 if the file or the store cannot be used, or if `work` fails. Faults in
 * other sections do not stop the command: it must be possible to revoke a key while a route has a fault.
 */
export async function withAccounts(
  context: CommandContext,
  work: (accounts: OpenAccounts) => Promise<Failed | undefined>,
): Promise<0 | 1> {
  const { config, faults } = await readPipeline(context.configFile, context.env);
  for (const fault of faults) context.printToStderr(printFault(fault, process.cwd()));
  if (config === undefined || faults.some((fault) => concerns(config, fault))) return 1;
  await using stack = new AsyncDisposableStack();
  try {
    const opened = await openStore(config, stack);
    const by = { actor: actor(), at: systemClock.now() };
    const failed = await work({ ...opened, config, by });
    if (failed !== undefined) context.printToStderr(failed.message);
    return failed === undefined ? 0 : 1;
  } catch (error) {
    const failed = explain(error, `state.db in ${config.store.data}`);
    context.printToStderr(printFault(storeFault(failed, config), process.cwd()));
    return 1;
  }
}

/** Rejects with StoreError. The store is closed through `stack`. */
async function openStore(config: Config, stack: AsyncDisposableStack): Promise<OpenStore> {
  const { data: dataDir } = config.store;
  if (config.store.postgres !== undefined) refuseUnmoved(dataDir);
  const { sql, database } = stack.use(await openCommandStore(config));
  const joined = joinTransactions(sql("accounts"));
  const store = await openAccountStore(joined, database !== undefined);
  if (database === undefined) return { store, purchasedLeft: purchasedLeftOf(dataDir) };
  const usage = createUsageQueries(database);
  return { store, purchasedLeft: (workspace) => usage.purchasedLeft(workspace) };
}

/** The draws are in the journal in the same folder, which is read for the first workspace. */
function purchasedLeftOf(dataDir: string): (workspace: Workspace) => number {
  let drawn: ReadonlyMap<string, number> | undefined;
  return ({ id, purchasedTotalMilliCu }) => {
    drawn ??= readPurchasedDrawn(dataDir);
    return Math.max(0, purchasedTotalMilliCu - (drawn.get(id) ?? 0));
  };
}

export function printRecord(context: CommandContext, record: Flat): void {
  if (context.json) return context.print(JSON.stringify(record));
  const width = Math.max(...Object.keys(record).map((name) => name.length));
  for (const [name, value] of Object.entries(record)) {
    context.print(`${name.padEnd(width)}  ${shown(value)}`);
  }
}

export function printRecords(
  context: CommandContext,
  records: readonly Flat[],
  columns: readonly string[],
): void {
  if (context.json) return context.print(JSON.stringify(records));
  const rows = [columns, ...records.map((record) => columns.map((name) => shown(record[name])))];
  const widths = columns.map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  for (const row of rows) {
    context.print(
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
}

function shown(value: Flat[string]): string {
  const text = typeof value === "object" ? value.join(" ") : String(value ?? "");
  return text === "" ? "-" : text;
}

function actor(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    // In a container, the user id may not have a name.
    return `cli:${process.getuid?.() ?? "unknown"}`;
  }
}

export interface Confirmations {
  readonly confirmed_by: readonly string[];
  readonly not_confirmed_by: readonly string[];
}

/** Waits up to 2 s until all gateways have applied the committed changes. Undefined if they do not report it. */
export async function waitForGateways(
  context: CommandContext,
  store: AccountStore,
): Promise<Confirmations | undefined> {
  const end = performance.now() + maxWaitMs;
  let target: number | undefined;
  for (;;) {
    const found = await store.followers();
    if (found === undefined) return undefined;
    target ??= found.newestChange;
    const running = found.followers.filter(({ silentMs }) => silentMs < endedAfterMs);
    const [late, confirmed] = [namesOf(running, target, false), namesOf(running, target, true)];
    if (late.length > 0 && performance.now() < end) {
      await wait(askEveryMs);
      continue;
    }
    if (late.length > 0) {
      const names = late.join(", ");
      context.printToStderr(
        `Not confirmed within 2 s by: ${names}. A gateway that cannot read the database refuses every key after 5 s.`,
      );
    }
    return { confirmed_by: confirmed, not_confirmed_by: late };
  }
}

function namesOf(followers: readonly Follower[], change: number, hasSeen: boolean): string[] {
  return followers.filter(({ mark }) => mark >= change === hasSeen).map(({ name }) => name);
}
