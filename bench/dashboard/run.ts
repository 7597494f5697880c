/**
 * Measures the dashboard and the limit alerts with 10,000 keys and a year of charges: the time until each view is shown
 * in Chromium, and one look at all limits, as the section `alerts` makes it once per minute.
 *
 *   npm run bench -- --dashboard [--folder a-folder-with-data]
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { LimitWatch } from "../../plugins/alerts/alerts/limits.ts";
import { startGateway } from "../../src/gateway/gateway.ts";
import { createLog } from "../../src/base/log.ts";
import { shippedTables } from "../../src/pipeline/load/databases.ts";
import { openClaims } from "../../src/store/claims.ts";
import { openSqliteSql } from "../../src/store/sql/sqlite-sql.ts";
import { stateFileOf } from "../../src/store/sql/state-file.ts";
import { systemClock } from "../../src/base/clock.ts";
import { launch } from "../../test/browser.ts";
import { builtSluice } from "../load/start-sluice.ts";
import { freePort, startPeer } from "../load/process.ts";
import { median } from "../load/table.ts";
import { addAdministrator, fillDataFolder, type Amount, type Filled } from "./fill.ts";
import { createSession } from "../../src/store/session.ts";

const amount: Amount = {
  workspaces: 500,
  keys: 10_000,
  chargesPerDay: 10_000,
  days: 365,
  // A gateway stores at most 100 names per minute.
  routes: 60,
  models: 30,
};
const gatewayCore = 0;
const rounds = 4;
const maxMs = 900_000;

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: ./data }
log: { level: error }
plans: { enterprise: { rps: 100000, includedCu: 100000 } }
unmatched: [request-id, authenticate]
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 500 } }]
    to: discovery
`;

/** `shows`: CSS selector of an element that the view shows when it has data. */
interface Place {
  readonly name: string;
  readonly hash: string;
  readonly shows: string;
}

const row = "main table tbody tr";

function placesOf({ workspaceId, someKey }: Filled): Place[] {
  const spend = (name: string, query: string): Place => ({
    name: `Spend: ${name}`,
    hash: `spend?${query}`,
    shows: row,
  });
  return [
    { name: "Live", hash: "live", shows: "main .panel canvas, main .empty" },
    spend("this month by workspace", "by=workspace"),
    spend("today by key, per hour", "range=today&by=key"),
    spend("12 months by key", "range=year&by=key"),
    spend("12 months by workspace", "range=year&by=workspace"),
    spend("12 months by model", "range=year&by=model"),
    spend("12 months by key, of a workspace", `range=year&by=key&workspace=${workspaceId}`),
    { name: "Keys: the newest 100", hash: "keys", shows: row },
    { name: "Keys: page 90", hash: "keys?page=90", shows: row },
    { name: "Keys: search for an id", hash: `keys?q=${someKey}`, shows: row },
    { name: "Keys: of a workspace", hash: `keys?workspace=${workspaceId}`, shows: row },
    { name: "Workspaces", hash: "workspaces", shows: row },
    { name: "Workspaces: search", hash: "workspaces?q=Workspace%20499", shows: row },
    { name: "Changes", hash: "changes", shows: row },
    { name: "Changes: search for the oldest key", hash: `changes?q=${someKey}`, shows: row },
    { name: "Health: 1 h", hash: "health?range=1h&by=route", shows: row },
    { name: "Health: 24 h by route", hash: "health?range=24h&by=route", shows: row },
    { name: "Health: 30 d by route", hash: "health?range=30d&by=route", shows: row },
    { name: "Pipeline", hash: "pipeline", shows: "main .route" },
    { name: "Pipeline: file", hash: "pipeline?show=file", shows: row },
    { name: "Pipeline: stores", hash: "pipeline?show=stores", shows: row },
    { name: "Playground", hash: "playground", shows: "main .panel, main .empty" },
  ];
}

/** Milliseconds until the view is shown, and of its slowest call of the API. */
interface Shown {
  readonly ms: number;
  readonly apiMs: number;
}

/** Opens a view as a bookmark does: the page is loaded, too. */
async function show(page: Page, url: string, { hash, shows }: Place): Promise<Shown> {
  await page.goto("about:blank");
  const started = performance.now();
  await page.goto(`${url}#/${hash}`, { waitUntil: "commit" });
  await page.waitForFunction(
    `document.querySelector(${JSON.stringify(shows)}) !== null
      && document.querySelector("main .loading") === null`,
    undefined,
    { polling: "raf", timeout: maxMs },
  );
  const ms = performance.now() - started;
  const apiMs = await page.evaluate<number>(
    `Math.max(0, ...performance.getEntriesByType("resource")
      .filter(({ name }) => name.includes("/dashboard/api/")).map(({ duration }) => duration))`,
  );
  return { ms, apiMs };
}

async function measureViews(folder: string, filled: Filled): Promise<void> {
  const adminPort = await freePort();
  const command = [...builtSluice(), "start", "--json", "--config", join(folder, "pipeline.yaml")];
  const env = { PORT: "0", ADMIN_PORT: String(adminPort) };
  const started = performance.now();
  await using peer = await startPeer(command, { core: gatewayCore, env });
  console.log(`gateway started in ${Math.round(performance.now() - started)} ms`);
  const url = `http://127.0.0.1:${adminPort}/dashboard`;
  const browser = await launch();
  try {
    // The policy of the page forbids the functions with which Playwright waits.
    const page = await browser.newPage({
      viewport: { width: 1280, height: 900 },
      bypassCSP: true,
    });
    page.setDefaultTimeout(maxMs);
    await page.goto(url);
    await page.getByLabel("API key").fill(filled.adminKey);
    await page.keyboard.press("Enter");
    await page.getByRole("navigation").waitFor();
    const build = { name: "", hash: "spend?range=year&by=key", shows: row };
    const adding = await show(page, url, build);
    console.log(`the past was added up in ${Math.round(adding.ms)} ms`);
    const places = placesOf(filled);
    const times = new Map<Place, Shown[]>(places.map((place) => [place, []]));
    for (let round = 0; round < rounds; round++) {
      for (const place of places) {
        try {
          times.get(place)?.push(await show(page, url, place));
        } catch (error) {
          const text = await page.locator("main").textContent();
          throw new Error(`${place.name} was not shown: ${text?.slice(0, 500)}`, { cause: error });
        }
      }
    }
    console.log(`\n| view | first, ms | median, ms | slowest call of the API, median, ms |`);
    console.log(`| --- | --- | --- | --- |`);
    for (const [{ name }, [first, ...others]] of times) {
      const middle = (of: keyof Shown): string =>
        median(others.map((shown) => shown[of])).toFixed(0);
      console.log(`| ${name} | ${first?.ms.toFixed(0)} | ${middle("ms")} | ${middle("apiMs")} |`);
    }
    console.log(`\nmemory of the gateway: ${peer.rssMiB().toFixed(0)} MiB`);
  } finally {
    await browser.close();
  }
}

/** Looks at the limits of all keys that were charged today or yesterday, and then at none. */
async function measureAlerts(folder: string): Promise<void> {
  const gateway = await startGateway({
    configFile: join(folder, "pipeline.yaml"),
    env: { PORT: "0", ADMIN_PORT: "0" },
    watch: false,
  });
  const [accounts, metering] = [gateway.use("accounts"), gateway.use("metering")];
  const tables = stateFileOf(join(folder, "claims"), await shippedTables());
  const sql = await openSqliteSql(tables, systemClock);
  const claims = await openClaims(
    sql,
    createSession(sql.query, systemClock),
    systemClock,
    createLog({ level: "warn" }),
  );
  try {
    if (accounts === undefined || metering === undefined) throw new Error("a service is missing");
    const watch = new LimitWatch({ accounts, metering, claims, clock: systemClock });
    for (const name of ["all keys", "nothing has changed", "nothing has changed"]) {
      const cpu = process.cpuUsage();
      const own = process.threadCpuUsage();
      const started = performance.now();
      let alerts = 0;
      await watch.look(() => alerts++);
      const ms = performance.now() - started;
      const { user, system } = process.cpuUsage(cpu);
      const main = process.threadCpuUsage(own);
      console.log(
        `alerts, ${name}: ${ms.toFixed(0)} ms, CPU ${((user + system) / 1000).toFixed(0)} ms,` +
          ` of which on the main thread ${((main.user + main.system) / 1000).toFixed(0)} ms; ${alerts} alerts`,
      );
    }
  } finally {
    claims.close();
    await sql.close();
    await gateway.stop();
  }
}

/** `given`: a folder that an earlier run has kept. By default the data are made, and deleted at the end. */
export async function measureDashboard(given: string | undefined): Promise<void> {
  const folder = given ?? mkdtempSync(join(tmpdir(), "sluice-bench-dashboard-"));
  try {
    if (given === undefined) {
      writeFileSync(join(folder, "pipeline.yaml"), pipeline);
      const started = performance.now();
      await fillDataFolder(join(folder, "data"), amount, Date.now());
      const seconds = ((performance.now() - started) / 1000).toFixed(0);
      console.log(`${amount.keys} keys and ${amount.days} days of charges, made in ${seconds} s`);
    }
    console.log(`load average: ${loadavg()[0]?.toFixed(1)}`);
    await measureViews(folder, await addAdministrator(join(folder, "data"), Date.now()));
    await measureAlerts(folder);
    console.log(`load average: ${loadavg()[0]?.toFixed(1)}`);
  } finally {
    if (given === undefined) rmSync(folder, { recursive: true, force: true });
  }
}
