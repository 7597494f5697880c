/**
 * Measures how large billing is: lines and files, tables and functions in PostgreSQL, statements that an idle gateway
 * repeats, and the files that a charge passes.
 *
 *   node bench/billing/figures.ts
 */
import { globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import {
  createKey,
  openGatewaysOn,
  postgresStore,
  upgradeDatabase,
  type StoreGateways,
} from "../../test/contract/gateways.ts";
import { startPostgres } from "../../test/store/postgres-server.ts";
import { installedPostgres } from "../../test/store/programs.ts";
import { runSql } from "../../test/store/servers.ts";

const root = join(import.meta.dirname, "../..");
const idleMs = 5_000;
const measuredCalls = 10;

/** Counts neither blank lines nor comments. A comment behind code counts as code. */
function codeLines(text: string): number {
  let count = 0;
  let isComment = false;
  for (const line of text.split("\n").map((each) => each.trim())) {
    const begins = line.startsWith("/*");
    if (!isComment && !begins && line !== "" && !line.startsWith("//")) count++;
    if (begins) isComment = true;
    if (isComment && line.includes("*/")) isComment = false;
  }
  return count;
}

function sizeOf(...patterns: readonly string[]): { files: number; lines: number } {
  const files = globSync(patterns, { cwd: root });
  const texts = files.map((file) => readFileSync(join(root, file), "utf8"));
  return { files: files.length, lines: texts.reduce((sum, text) => sum + codeLines(text), 0) };
}

function awaitables(): number {
  const files = globSync(["src/**/*.ts", "plugins/**/*.ts"], { cwd: root });
  const texts = files.map((file) => readFileSync(join(root, file), "utf8"));
  return texts.reduce((sum, text) => sum + text.split("Awaitable<").length - 1, 0);
}

async function schemaOf(url: string): Promise<unknown> {
  const [row] = await runSql(
    url,
    `SELECT
      (SELECT count(*)::int FROM pg_class WHERE relnamespace = 'sluice'::regnamespace
        AND relkind IN ('r', 'p') AND NOT relispartition) AS tables,
      (SELECT count(*)::int FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace) AS functions`,
  );
  return row;
}

/** Returns the statements that a gateway without requests repeats at least once per second. */
async function idleStatements(url: string): Promise<readonly string[]> {
  await runSql(url, "CREATE EXTENSION pg_stat_statements", "SELECT pg_stat_statements_reset()");
  await wait(idleMs);
  const rows = await runSql(
    url,
    "SELECT calls::int, query FROM pg_stat_statements ORDER BY 1 DESC",
  );
  return rows
    .filter((row) => Number(row["calls"]) >= idleMs / 1000 - 1)
    .map((row) => {
      const perSecond = (Number(row["calls"]) / idleMs) * 1000;
      return `${perSecond.toFixed(1)}/s ${String(row["query"]).replaceAll(/\s+/g, " ").slice(0, 90)}`;
    });
}

/**
 * Returns the files of billing of which a function runs during each of several charged calls, on leased credit. The
 * messages that carry the charge are part of it; polls, which run during some of the calls, are not.
 */
async function filesOfCharge(gateways: StoreGateways): Promise<readonly string[]> {
  const { text } = await createKey(gateways, "enterprise");
  const callOnce = async (): Promise<void> => {
    const headers = { authorization: `Bearer ${text}` };
    const { status } = await fetch(`${gateways.one.url}/call`, { headers });
    if (status !== 200) throw new Error(`the call was answered ${status}`);
  };
  for (let n = 0; n < 20; n++) await callOnce();
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  let functions: ReadonlyMap<string, number> | undefined;
  for (let n = 0; n < measuredCalls; n++) {
    await session.post("Profiler.takePreciseCoverage");
    await callOnce();
    const { result } = await session.post("Profiler.takePreciseCoverage");
    const now = new Map<string, number>();
    for (const { url, functions: all } of result) {
      const run = all.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length;
      const file = url.startsWith("file:") ? relative(root, new URL(url).pathname) : "";
      const before = functions === undefined ? Infinity : (functions.get(file) ?? 0);
      if (file.startsWith("plugins/billing/") && run > 0 && before > 0) {
        now.set(file, Math.min(run, before));
      }
    }
    functions = now;
  }
  session.disconnect();
  return [...(functions ?? [])]
    .toSorted(([, a], [, b]) => b - a)
    .map(([file, run]) => `${file}: ${run} functions`);
}

async function ofPostgres(): Promise<unknown> {
  const settings = { shared_preload_libraries: "pg_stat_statements" };
  await using server = await startPostgres(await installedPostgres(), { settings });
  await upgradeDatabase(server.url);
  const folder = mkdtempSync(join(tmpdir(), "sluice-figures-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const store = postgresStore(server.url, ["one"]);
  const ending = { after: (close: () => Promise<void>): void => stack.defer(close) };
  const gateways = await openGatewaysOn(ending, folder, store);
  return {
    schema: await schemaOf(server.url),
    statementsOfIdleGateway: await idleStatements(server.url),
    filesOfCharge: await filesOfCharge(gateways),
  };
}

const figures = {
  billing: sizeOf("plugins/billing/**/*.ts"),
  tests: sizeOf("test/plugins/billing/**/*.ts", "test/contract/*.ts", "test/chaos/**/*.ts"),
  awaitables: awaitables(),
  postgres: await ofPostgres(),
};
process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
