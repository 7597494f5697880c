/** Collects the databases that the core and the modules keep in the data folder. */
import { claimsVersion } from "../../store/claims.ts";
import { storageFile, storageVersion } from "../../store/plugin-storage.ts";
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

export async function knownDatabases(): Promise<KnownDatabases> {
  const { databases, disposable } = await shippedModules();
  const ofModules = await Promise.all(databases.map((versions) => versions()));
  const core = { "claims.db": claimsVersion, [storageFile]: storageVersion };
  const all = Object.assign(core, ...ofModules) as Versions;
  const required = Object.entries(all).filter(([name]) => !disposable.includes(name));
  return { all, required: Object.fromEntries(required), disposable };
}
