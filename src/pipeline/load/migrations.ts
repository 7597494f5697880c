/** Collects the scripts that make the tables in PostgreSQL: those of the core, then those of the modules. */
import { claimMigrations } from "../../store/postgres/claims.ts";
import type { Migration } from "../../store/postgres/migrations.ts";
import { shippedModules } from "./modules.ts";

export async function shippedMigrations(): Promise<readonly Migration[]> {
  const { migrations } = await shippedModules();
  const ofModules = await Promise.all(migrations.map((load) => load()));
  return [...claimMigrations, ...ofModules.flat()];
}
