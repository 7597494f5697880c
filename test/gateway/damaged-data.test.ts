/** A gateway whose data folder has a damaged or a missing database. */
import assert from "node:assert/strict";
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway } from "sluice-gateway/testing";
import { systemClock } from "../../src/base/clock.ts";
import type { Clock } from "../../src/plugin.ts";
import { startGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { StartError } from "../../src/start-error.ts";
import { DatabaseSync } from "node:sqlite";
import { keptLog } from "../test-log.ts";
import { damage } from "../store/damage.ts";
import { until } from "../store/redis/open-redis.ts";

const pipeline = `version: 1
server: { port: 0 }
admin: { port: 0 }
store: { data: "\${DATA_DIR}" }
secret: at-least-sixteen-characters
routes:
  - { path: /, methods: [GET], run: [authenticate, { authorize: { require: key } }], to: front-page }
`;

interface Stopped {
  readonly data: string;
  readonly start: (
    clock?: Clock,
  ) => Promise<{ readonly gateway: Gateway; readonly lines: readonly string[] }>;
}

async function stopped(t: TestContext): Promise<Stopped> {
  const started = await startTestGateway({ pipeline });
  t.after(() => started[Symbol.asyncDispose]());
  const { folder, key, url } = started;
  const authorization = `Bearer ${key}`;
  assert.equal((await fetch(url, { headers: { authorization } })).status, 200);
  await started.gateway.stop();
  const data = join(folder, "data");
  return {
    data,
    start: async (clock = systemClock) => {
      const { log, lines } = keptLog();
      const env = { DATA_DIR: data };
      const configFile = join(folder, "pipeline.yaml");
      const gateway = await startGateway({ configFile, env, log, clock });
      t.after(() => gateway.stop());
      assert.equal((await fetch(gateway.url, { headers: { authorization } })).status, 200);
      return { gateway, lines };
    },
  };
}

/** Returns the number of pages of a database whose content is in the file and not in the WAL. */
function pagesOf(file: string): number {
  const db = new DatabaseSync(file);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  const pages = Number(db.prepare("PRAGMA page_count").get()?.["page_count"]);
  db.close();
  return pages;
}

async function metric(gateway: Gateway, name: string): Promise<string | undefined> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1];
}

for (const name of ["charges.db", "state.db"]) {
  test(`a damaged page of ${name} refuses the start, names the file and the remedy, and changes nothing`, async (t) => {
    const { data, start } = await stopped(t);
    const file = join(data, name);
    const pages = pagesOf(file);
    const whole = readFileSync(file);
    for (const page of [1, Math.ceil(pages / 2), pages]) {
      damage(file, page);
      const damaged = readFileSync(file);
      await assert.rejects(start(), (error) => {
        assert.ok(error instanceof StartError, String(error));
        const [fault] = error.faults;
        assert.equal(fault?.code, "SLUICE_STORE_CORRUPT", `page ${page}: ${fault?.message}`);
        assert.match(fault.message, new RegExp(name));
        return true;
      });
      assert.deepEqual(readFileSync(file), damaged);
      writeFileSync(file, whole);
    }
    await start();
  });
}

test("a check that takes longer than the start waits ends later, and its result is in the log and a metric", async (t) => {
  const { data, start } = await stopped(t);
  const file = join(data, "charges.db");
  const db = new DatabaseSync(file);
  db.exec("CREATE TABLE filler (bytes BLOB)");
  // A small database is checked without a thread.
  db.exec("INSERT INTO filler VALUES (zeroblob(20000000))");
  for (let n = 0; n < 20; n++) db.exec("INSERT INTO filler VALUES (randomblob(3000))");
  db.close();
  damage(file, pagesOf(file));
  const impatient: Clock = {
    ...systemClock,
    after: (ms, task) => systemClock.after(ms === 3_000 ? 0 : ms, task),
  };
  const { gateway, lines } = await start(impatient);
  await until(async () => (await metric(gateway, "sluice_damaged_databases")) === "1");
  assert.match(lines.join("\n"), /error .*charges\.db is damaged/);
});

test("a damaged history of an earlier release is set aside with a warning, and the gateway starts", async (t) => {
  const { data, start } = await stopped(t);
  const earlier = join(import.meta.dirname, "../store/sql/old-folder/history.db");
  copyFileSync(earlier, join(data, "history.db"));
  damage(join(data, "history.db"), 1);
  const { lines } = await start();
  assert.match(lines.join("\n"), /warn .*history\.db.*starts with an empty one/);
  const kept = readdirSync(data).filter((name) => name.startsWith("history.db.damaged-"));
  assert.equal(kept.length, 1);
});

test("a journal that is missing although keys were used is reported by the log and a metric", async (t) => {
  const { data, start } = await stopped(t);
  {
    const { gateway, lines } = await start();
    assert.equal(await metric(gateway, "sluice_journal_missing"), "0");
    assert.doesNotMatch(lines.join("\n"), /journal is missing/);
    await gateway.stop();
  }
  for (const name of readdirSync(data)) {
    if (name.startsWith("charges.db")) rmSync(join(data, name));
  }
  const { gateway, lines } = await start();
  assert.match(lines.join("\n"), /error the journal is missing although keys have been used/);
  assert.equal(await metric(gateway, "sluice_journal_missing"), "1");
  await until(async () => (await metric(gateway, "sluice_damaged_databases")) === "0");
});
