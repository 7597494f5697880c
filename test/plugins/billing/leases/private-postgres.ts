/** A private PostgreSQL for one test file, from the system's packages, and psql as its client. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

const packages = "/usr/lib/postgresql";

/** PostgreSQL refuses to run as root. */
const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/**
 * Starts a server that listens on a socket in a temporary folder, until the test ends. Returns a function that runs
 * statements and returns one line per row. Undefined if PostgreSQL is not installed; the test is skipped then.
 */
export async function startPostgres(
  t: TestContext,
): Promise<((sql: string) => Promise<string[]>) | undefined> {
  const version = existsSync(packages) ? readdirSync(packages).toSorted().at(-1) : undefined;
  if (version === undefined) {
    assertNotCi();
    t.skip("PostgreSQL is not installed");
    return undefined;
  }
  const program = (name: string): string => join(packages, version, "bin", name);
  const folder = mkdtempSync(join(tmpdir(), "sluice-leases-"));
  chmodSync(folder, 0o700);
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
  const data = join(folder, "data");
  const options = { ...user, cwd: folder, stdio: "ignore" } as const;
  execFileSync(program("initdb"), ["-D", data, "-A", "trust", "-U", "test", "--no-sync"], options);
  const settings = ["-c", "listen_addresses=", "-c", "fsync=off", "-k", folder];
  const server = spawn(program("postgres"), ["-D", data, ...settings], options);
  t.after(async () => {
    await end(server);
    rmSync(folder, { recursive: true, force: true });
  });
  const place = ["-h", folder, "-U", "test", "-d", "postgres"];
  while (!isReady(program("pg_isready"), place.slice(0, 2))) {
    if (server.exitCode !== null) throw new Error(`postgres exited with ${server.exitCode}`);
    await wait(20);
  }
  return (sql) => run(program("psql"), place, sql);
}

function assertNotCi(): void {
  if (process.env["CI"] === "true") throw new Error("PostgreSQL is not installed");
}

function isReady(program: string, place: readonly string[]): boolean {
  try {
    execFileSync(program, place, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

async function run(psql: string, place: readonly string[], sql: string): Promise<string[]> {
  const child = spawn(psql, [...place, "-qtAX", "-v", "ON_ERROR_STOP=1"]);
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdin.on("error", () => {});
  child.stdin.end(sql);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(errors);
  return output.split("\n").slice(0, -1);
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null) return;
  server.kill("SIGQUIT");
  await once(server, "close");
}
