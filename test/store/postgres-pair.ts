/** A PostgreSQL with a standby that can take over. A proxy leads to the primary, so the address stays the same. */
import { execFile } from "node:child_process";
import { appendFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";
import { startFaultProxy, type FaultProxy } from "./fault-proxy.ts";
import { startPostgres, type PostgresServer } from "./postgres-server.ts";
import { unprivileged, type PostgresPrograms } from "./programs.ts";
import { runSql } from "./servers.ts";

export interface PostgresPair extends AsyncDisposable {
  readonly url: string;
  readonly proxy: FaultProxy;
  /** The proxy through which the standby receives the log. Commits that it loses are missing after `failOver`. */
  readonly replication: FaultProxy;
  readonly primary: PostgresServer;
  /** Kills the primary, and makes the standby the primary. Afterwards there is no standby. */
  failOver(): Promise<void>;
  addStandby(): Promise<void>;
}

export interface PairOptions {
  /** True if a commit waits for the standby, so that a failover loses nothing. */
  readonly synchronous: boolean;
}

const settings = { wal_retrieve_retry_interval: "100ms", autovacuum: "off" };

/** The programs must include pg_basebackup, which the npm package does not contain. */
export async function startPostgresPair(
  programs: PostgresPrograms,
  { synchronous }: PairOptions,
): Promise<PostgresPair> {
  await using starting = new AsyncDisposableStack();
  let primary = await startPostgres(programs, { durable: true, settings });
  starting.defer(() => primary[Symbol.asyncDispose]());
  let standby: PostgresServer | undefined;
  starting.defer(async () => standby?.[Symbol.asyncDispose]());
  const proxy = starting.use(await startFaultProxy(primary.port));
  const replication = starting.use(await startFaultProxy(primary.port));
  const copy = async (data: string): Promise<void> => {
    const from = ["-h", "127.0.0.1", "-p", String(primary.port), "-U", "sluice", "-c", "fast"];
    const program = join(dirname(programs.postgres), "pg_basebackup");
    await promisify(execFile)(program, ["-D", data, "--no-sync", ...from], { ...unprivileged });
    const source = `host=127.0.0.1 port=${replication.port} user=sluice application_name=standby`;
    // The copy has the setting of the primary, which would make it wait for a standby of its own.
    const file = join(data, "postgresql.auto.conf");
    await writeFile(file, `primary_conninfo = '${source}'\n`);
    await appendFile(join(data, "standby.signal"), "");
  };
  const url = new URL(primary.url);
  url.port = String(proxy.port);
  const pair: PostgresPair = {
    url: url.href,
    proxy,
    replication,
    get primary() {
      return primary;
    },
    async failOver() {
      if (standby === undefined) throw new Error("there is no standby");
      const [old, next] = [primary, standby];
      await old.kill();
      await runSql(next.url, "SELECT pg_promote()");
      primary = next;
      standby = undefined;
      proxy.serverPort = next.port;
      proxy.reset();
      await old[Symbol.asyncDispose]();
    },
    async addStandby() {
      replication.serverPort = primary.port;
      standby = await startPostgres(programs, { durable: true, settings, fill: copy });
      const state = "SELECT FROM pg_stat_replication WHERE state = 'streaming'";
      while ((await runSql(primary.url, state)).length === 0) await wait(20);
      if (!synchronous) return;
      const setting = "ALTER SYSTEM SET synchronous_standby_names = 'standby'";
      await runSql(primary.url, setting, "SELECT pg_reload_conf()");
      const isSync = `${state} AND sync_state = 'sync'`;
      while ((await runSql(primary.url, isSync)).length === 0) await wait(20);
    },
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
  await pair.addStandby();
  const stack = starting.move();
  return pair;
}
