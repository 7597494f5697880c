/**
 * Databases and servers for tests: PostgreSQL from npm's package (or SLUICE_TEST_DATABASE_URL), and PgBouncer where the
 * system has it. Redis is in redis-server.ts.
 */
import { randomUUID } from "node:crypto";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Client } from "pg";
import { sharedInRun } from "../run-share.ts";
import { serverFolder, systemProgram } from "./programs.ts";
import { endServer, freePort, startServer } from "./server-process.ts";

const givenServer = process.env["SLUICE_TEST_DATABASE_URL"] ?? "";
/** True if the server was started for this run. */
export const isOwnServer = givenServer === "";

function sharedServer(): Promise<string> | string {
  return givenServer || sharedInRun(join(import.meta.dirname, "server-keeper.ts"));
}

/** Runs statements on a database, one after the other, and returns the rows of the last one. */
export async function runSql(
  url: string,
  ...statements: readonly string[]
): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) rows = (await client.query(statement)).rows;
    return rows;
  } finally {
    await client.end();
  }
}

/** Lets the server of a database seem to run for a long time, because nobody is fenced in its first seconds. */
export async function forgetServerStart(url: string): Promise<void> {
  const [row] = await runSql(url, "SELECT format('%I', current_database()) AS name");
  await runSql(url, `ALTER DATABASE ${String(row?.["name"])} SET sluice.started_ms = 0`);
}

export interface Ending {
  after(close: () => Promise<unknown>): void;
}

/**
 * Creates a database on the shared server, which is dropped after the test. Returns its URL. It is empty, or a copy of
 * `template`.
 */
export async function createDatabase(t: Ending, template = "template0"): Promise<string> {
  const server = await sharedServer();
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  // A copy of the files takes less time than a copy in the log of the server, which is not durable.
  const strategy = isOwnServer ? "STRATEGY FILE_COPY" : "";
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${template} ${strategy}`);
  if (!isOwnServer) t.after(() => runSql(server, `DROP DATABASE ${name} WITH (FORCE)`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** Starts PgBouncer in front of `url` until the test ends. Without it, skips the test and returns undefined. */
export async function startPgBouncer(t: TestContext, url: string): Promise<string | undefined> {
  const program = systemProgram(t, "pgbouncer");
  if (program === undefined) return undefined;
  const bouncer = await openPgBouncer(program, url);
  t.after(() => bouncer[Symbol.asyncDispose]());
  return bouncer.url;
}

/** Starts PgBouncer in transaction mode before the server at `url`. */
export async function openPgBouncer(
  program: string,
  url: string,
): Promise<AsyncDisposable & { readonly url: string }> {
  const { hostname, port, pathname, username } = new URL(url);
  const folder = serverFolder("pgbouncer");
  const file = join(folder, "pgbouncer.ini");
  const listenPort = await freePort();
  const settings = [
    "[databases]",
    `* = host=${hostname} port=${port} user=${username}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${listenPort}`,
    "auth_type = any",
    "pool_mode = transaction",
    "default_pool_size = 4",
    "server_login_retry = 0.1",
    // Each test has a database, and the server has a limit on connections.
    "server_idle_timeout = 2",
    "unix_socket_dir =",
  ];
  writeFileSync(file, `${settings.join("\n")}\n`);
  chmodSync(file, 0o644);
  const child = await startServer(program, [file], "process up");
  return {
    url: `postgres://${username}@127.0.0.1:${listenPort}${pathname}`,
    async [Symbol.asyncDispose]() {
      await endServer(child, "SIGKILL");
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
