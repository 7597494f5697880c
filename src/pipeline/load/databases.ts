import { claimTables } from "../../store/claims.ts";
import { storageTables } from "../../store/plugin-storage.ts";
import { stateFile } from "../../store/sql/state-file.ts";
import { joined, takenOverVersion, type Tables } from "../../store/sql/tables.ts";
import { shippedModules } from "./modules.ts";

/** The schema versions that this release supports, by file name. */
type Versions = Readonly<Record<string, number>>;

export interface KnownDatabases {
  readonly all: Versions;
  /** Those without which the gateway loses something that it cannot make again. */
  readonly required: Versions;
  /** Names of those that can be replaced by empty ones (`Module.disposable`). Backups may leave some of them out. */
  readonly disposable: readonly string[];
}

export async function shippedTables(): Promise<Tables> {
  const { tables } = await shippedModules();
  return joined([claimTables, storageTables, ...(await Promise.all(tables.map((load) => load())))]);
}

export async function knownDatabases(): Promise<KnownDatabases> {
  const { databases, disposable } = await shippedModules();
  const ofModules = await Promise.all(databases.map((versions) => versions()));
  const { scripts, takeovers } = await shippedTables();
  const all: Versions = Object.assign(
    { [stateFile]: scripts.length },
    Object.fromEntries(takeovers.map((takeover) => [takeover.file, takenOverVersion(takeover)])),
    ...ofModules,
  ) as Versions;
  const required = Object.entries(all).filter(([name]) => !disposable.includes(name));
  return { all, required: Object.fromEntries(required), disposable };
}
