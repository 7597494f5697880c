import { stateDatabase, type EmbeddedDatabase } from "../../store/postgres/move-store.ts";
import type { Migration } from "../../store/postgres/migrations.ts";
import { replicaMigrations } from "../../store/postgres/replicas.ts";
import { postgresScripts } from "../../store/sql/tables.ts";
import { shippedTables } from "./databases.ts";
import { shippedModules } from "./modules.ts";

export async function shippedMigrations(): Promise<readonly Migration[]> {
  const { migrations } = await shippedModules();
  const ofModules = await Promise.all(migrations.map((load) => load()));
  return [...postgresScripts(await shippedTables()), ...replicaMigrations, ...ofModules.flat()];
}

/** Returns the databases in the data folder that the tables replace. */
export async function movedDatabases(): Promise<readonly EmbeddedDatabase[]> {
  return [stateDatabase(await shippedTables())];
}
