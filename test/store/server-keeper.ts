/**
 * Runs one PostgreSQL for all test files of a test run, and ends with the run. Arguments: the process id of the run,
 * and the file that gets the URL.
 */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { packagedPostgres } from "./programs.ts";
import { startPostgres, type PostgresServer } from "./postgres-server.ts";

const [runId = "", file = ""] = process.argv.slice(2);
let text = "";
let server: PostgresServer | undefined;
try {
  server = await startPostgres(await packagedPostgres());
  text = server.url;
} catch (error) {
  text = `failed: ${String(error)}`;
}
setInterval(() => {
  if (isRunning(Number(runId))) return;
  rmSync(dirname(file), { recursive: true, force: true });
  void Promise.resolve(server?.[Symbol.asyncDispose]()).finally(() => process.exit());
}, 500);
writeFileSync(`${file}.next`, text);
renameSync(`${file}.next`, file);

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
