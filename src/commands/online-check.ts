/**
 * Checks whether the database can be used and keeps what it commits, whether the gateways on it have the same settings,
 * and whether Redis answers.
 */
import { systemClock } from "../base/clock.ts";
import type { Config } from "../config/config.ts";
import type { Fault } from "../config/fault.ts";
import { storeFault } from "../config/store-faults.ts";
import { createLog } from "../base/log.ts";
import { createMetrics } from "../base/metrics.ts";
import type { Clock, Postgres, Seal } from "../plugin.ts";
import { sharedSettings } from "../pipeline/load/shared-settings.ts";
import { explainPostgres, postgresError } from "../store/postgres/failure.ts";
import {
  differenceFrom,
  selectOtherSettings,
  type OtherSettings,
} from "../store/postgres/gateway-rows.ts";
import { number, text } from "../store/row.ts";
import { StoreError } from "../store/store-error.ts";
import { checkTables, openCommandDatabase } from "./database.ts";

/** A larger difference between the clocks of a gateway and its database is reported. */
const maxOffsetMs = 1_000;

/** Returns no faults without `store.postgres`. Never rejects. */
export async function onlineFaults(
  config: Config,
  clock: Pick<Clock, "now">,
): Promise<readonly Fault[]> {
  const opened = openCommandDatabase(config);
  if (opened === undefined) return [];
  const { database, seal } = opened;
  const problems = [await redisProblem(config, seal)];
  try {
    await checkTables(opened);
    problems.push(await lossProblem(database), await clockProblem(database, clock));
    problems.push(await settingsProblem(database, config));
  } catch (error) {
    problems.push(explainPostgres(error, database.place));
  } finally {
    await database.close();
  }
  return problems.flatMap((problem) =>
    problem === undefined ? [] : [storeFault(problem, config)],
  );
}

/** Connects as a start does. A Redis that does not answer does not prevent a start. */
async function redisProblem(
  { store: { redis: url }, environment }: Config,
  seal: Seal,
): Promise<StoreError | undefined> {
  if (url === undefined) return undefined;
  const { RedisConnection } = await import("../store/redis/redis.ts");
  const log = createLog({ level: "silent" });
  const metrics = createMetrics();
  const redis = await RedisConnection.open({
    url,
    environment,
    seal,
    clock: systemClock,
    log,
    metrics,
  });
  try {
    if (redis.isUp) return undefined;
    return new StoreError(
      "SLUICE_STORE_UNREACHABLE",
      `Redis at ${redis.place} does not answer (${redis.reason})`,
      "Start it, or correct store.redis (REDIS_URL). While Redis cannot be reached, each gateway allows its share of the request rates.",
      undefined,
      "redis",
    );
  } finally {
    redis.close();
  }
}

/** Every receiver of the write-ahead log counts as a standby, because not every user may see its kind. */
async function lossProblem(database: Postgres): Promise<StoreError | undefined> {
  const [row = {}] = await database.query(
    "status",
    `SELECT current_setting('synchronous_commit') AS commits,
       current_setting('synchronous_standby_names') AS names,
       (SELECT count(*) FROM pg_stat_replication) AS standbys`,
  );
  if (text(row, "commits") === "off") {
    return postgresError(
      "SLUICE_STORE_LOSSY",
      "PostgreSQL can lose commits in a crash, because synchronous_commit is off",
      "Set synchronous_commit to on for the user or the database of the gateway.",
    );
  }
  const standbys = number(row, "standbys");
  if (standbys === 0 || text(row, "names") !== "") return undefined;
  return postgresError(
    "SLUICE_STORE_LOSSY",
    `PostgreSQL can lose commits in a failover: it has ${standbys} ${standbys === 1 ? "standby" : "standbys"}, and synchronous_standby_names is empty`,
    "Set synchronous_standby_names, for example to ANY 1 (*).",
  );
}

async function settingsProblem(
  database: Postgres,
  config: Config,
): Promise<StoreError | undefined> {
  const own = await sharedSettings(config);
  const statement = `SELECT ${selectOtherSettings("''", "$1")} AS others`;
  const [row] = await database.query("status", statement, [JSON.stringify(own)]);
  // Only the statement above writes the column.
  const difference = differenceFrom(own, row?.["others"] as readonly OtherSettings[]);
  if (difference === undefined) return undefined;
  const { gateways, sections } = difference;
  const names = gateways.map((name) => `"${name}"`).join(", ");
  return postgresError(
    "SLUICE_STORE_SETTINGS",
    `${gateways.length === 1 ? "a gateway has" : "gateways have"} other settings than this file in ${sections.join(", ")}: ${names}`,
    "Start all gateways of a database with the same settings. Until then, each one applies its own.",
  );
}

async function clockProblem(
  database: Postgres,
  clock: Pick<Clock, "now">,
): Promise<StoreError | undefined> {
  const before = clock.now();
  const [row = {}] = await database.query(
    "status",
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now",
  );
  const after = clock.now();
  const now = number(row, "now");
  // The time of the database was read between the two times of this host.
  const offsetMs = now < before ? now - before : Math.max(0, now - after);
  if (Math.abs(offsetMs) <= maxOffsetMs) return undefined;
  const side = offsetMs < 0 ? "ahead of" : "behind";
  return postgresError(
    "SLUICE_STORE_CLOCK",
    `the clock of this host is ${(Math.abs(offsetMs) / 1000).toFixed(1)} s ${side} that of PostgreSQL`,
    "Synchronize the clocks of both hosts.",
  );
}
