/**
 * What `keys` and `workspaces` share: the accounts of the configured data folder, who asks, and how answers are
 * printed.
 */
import type { DatabaseSync } from "node:sqlite";
import { userInfo } from "node:os";
import type { By } from "../accounts/change-log.ts";
import type { Failed } from "../accounts/failed.ts";
import { openAccountsDatabase } from "../accounts/schema.ts";
import { systemClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import { printFault, type Fault } from "../config/fault.ts";
import { readConfig } from "../config/read.ts";
import { storeFault } from "../config/store-fault.ts";
import { explain } from "../store/store-error.ts";
import type { CommandContext } from "./command.ts";

/** What is printed: flat, members without a value left out. */
export type Flat = Readonly<Record<string, string | number | readonly string[] | undefined>>;

export interface OpenAccounts {
  readonly db: DatabaseSync;
  readonly config: Config;
  readonly by: By;
}

/** What of pipeline.yaml these commands read. */
const sectionsRead: ReadonlySet<string | undefined> = new Set([
  undefined,
  "version",
  "environment",
  "store",
  "plans",
]);

/**
 * Faults that matter wherever they are reported: the file could not be read as a whole, or a shared store is wanted.
 */
const alwaysConcern = /^SLUICE_((FILE|YAML|ENV)_|NOT_SUPPORTED$)/;

/** Whether a fault leaves open which accounts are meant, or for whom. */
function concerns(config: Config, { code, at }: Fault): boolean {
  return at === undefined || alwaysConcern.test(code) || sectionsRead.has(config.sectionOf(at));
}

/**
 * Runs `work` on the accounts that pipeline.yaml names; a gateway may run on them at the same time. Says what is wrong
 * and resolves to 1 when the file or the store cannot be used, or when `work` fails. What is wrong in other sections is
 * no hindrance: a key must be revocable while somebody mends a route.
 */
export async function withAccounts(
  context: CommandContext,
  work: (accounts: OpenAccounts) => Failed | undefined,
): Promise<0 | 1> {
  const { config, faults } = await readConfig(context.configFile, context.env);
  for (const fault of faults) context.complain(printFault(fault, process.cwd()));
  if (config === undefined || faults.some((fault) => concerns(config, fault))) return 1;
  let db: DatabaseSync | undefined;
  try {
    db = openAccountsDatabase(config.store.data);
    const failed = work({ db, config, by: { actor: actor(), at: systemClock.now() } });
    if (failed !== undefined) context.complain(failed.message);
    return failed === undefined ? 0 : 1;
  } catch (error) {
    const failed = explain(error, `accounts.db in ${config.store.data}`);
    context.complain(printFault(storeFault(failed, config), process.cwd()));
    return 1;
  } finally {
    db?.close();
  }
}

/** One record: a JSON document, or a line for each member. */
export function printRecord(context: CommandContext, record: Flat): void {
  if (context.json) return context.print(JSON.stringify(record));
  const width = Math.max(...Object.keys(record).map((name) => name.length));
  for (const [name, value] of Object.entries(record)) {
    context.print(`${name.padEnd(width)}  ${shown(value)}`);
  }
}

/** Several records: one JSON array, or a table with the columns given. */
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
  if (value === undefined || value === "") return "-";
  return typeof value === "object" ? value.join(" ") : String(value);
}

function actor(): string {
  try {
    return `cli:${userInfo().username}`;
  } catch {
    // A container may run under a number that no name belongs to.
    return `cli:${process.getuid?.() ?? "unknown"}`;
  }
}
