import { existsSync, globSync } from "node:fs";
import { dirname, join } from "node:path";
import { findProgram, installedPostgres } from "../../store/programs.ts";
import type { CampaignPrograms } from "./deployment.ts";

/** Returns the programs, or the names of the Debian packages that are missing. */
export async function findPrograms(): Promise<CampaignPrograms | { readonly missing: string[] }> {
  const postgres = await installedPostgres();
  const pgbouncer = findProgram("pgbouncer");
  const redis = findProgram("redis-server");
  const [faketime] = globSync("/usr/lib/*/faketime/libfaketime.so.1");
  const hasStandby = existsSync(join(dirname(postgres.postgres), "pg_basebackup"));
  const missing = [
    ...(hasStandby ? [] : ["postgresql"]),
    ...(pgbouncer === undefined ? ["pgbouncer"] : []),
    ...(redis === undefined ? ["redis-server"] : []),
    ...(faketime === undefined ? ["faketime"] : []),
  ];
  if (!hasStandby || pgbouncer === undefined || redis === undefined || faketime === undefined) {
    return { missing };
  }
  return { postgres, pgbouncer, redis, faketime };
}
