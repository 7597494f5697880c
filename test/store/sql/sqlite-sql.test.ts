/** `Sql` on a file: groups of transactions, failures, and what is on the disk. There is one text per query. */
import assert from "node:assert/strict";
import { readFileSync, globSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { manualClock } from "../../../src/testing/clock.ts";
import { temporaryFolder } from "../folder.ts";
import { openFolderSql, type TestSql } from "../open-sql.ts";
import { runModule, sourceUrl } from "../run-module.ts";
import { sqliteText } from "../../../src/store/sql/dialect.ts";

const insert = "INSERT INTO sluice.claims (id, until) VALUES ($1, $2)";
const count = "SELECT count(*) AS n FROM sluice.claims";

interface Opened {
  readonly folder: string;
  readonly sql: TestSql;
  readonly rows: () => Promise<unknown>;
}

async function open(t: TestContext): Promise<Opened> {
  const folder = temporaryFolder(t);
  const sql = await openFolderSql(t, folder);
  return { folder, sql, rows: async () => (await sql.query(count))[0]?.["n"] };
}

/**
 * Returns the number of commits in the write-ahead log: the frames that carry the size of the database after the commit
 * (https://sqlite.org/fileformat2.html#walformat).
 */
function commitsIn(folder: string): number {
  const wal = readFileSync(join(folder, "state.db-wal"));
  const frame = wal.readUInt32BE(8) + 24;
  let commits = 0;
  for (let at = 32; at + frame <= wal.length; at += frame) {
    if (wal.readUInt32BE(at + 4) > 0) commits++;
  }
  return commits;
}

function code(expected: string): (error: unknown) => boolean {
  return (error) => error instanceof Error && "code" in error && error.code === expected;
}

test("all statements and transactions of a moment have one commit", async (t) => {
  const { folder, sql, rows } = await open(t);
  const before = commitsIn(folder);
  await Promise.all([
    ...Array.from({ length: 50 }, (_, n) => sql.query(insert, [`statement ${n}`, n])),
    ...Array.from({ length: 50 }, (_, n) =>
      sql.transaction(async (run) => {
        const [row] = await run("SELECT count(*) AS n FROM sluice.claims WHERE until = $1", [n]);
        await run(insert, [`transaction ${n}`, Number(row?.["n"])]);
      }),
    ),
  ]);
  assert.equal(await rows(), 100);
  assert.equal(commitsIn(folder) - before, 1);
});

test("a statement and a transaction that fail do not fail the others of their moment", async (t) => {
  const { sql, rows } = await open(t);
  const wrong = new Error("changed my mind");
  const results = await Promise.allSettled([
    sql.query(insert, ["a", 1]),
    sql.query(insert, ["a", 2]),
    sql.query("SELECT nonsense"),
    sql.transaction(async (run) => {
      await run(insert, ["b", 1]);
      throw wrong;
    }),
    sql.transaction((run) => run(insert, ["c", 1])),
    sql.query(count),
  ]);
  const statuses = results.map(({ status }) => status);
  const [ok, failed] = ["fulfilled", "rejected"];
  assert.deepEqual(statuses, [ok, failed, failed, failed, ok, ok]);
  assert.equal(results[3]?.status === "rejected" && results[3].reason, wrong);
  assert.ok(results[1]?.status === "rejected" && code("SLUICE_STORE_FAILED")(results[1].reason));
  assert.equal(await rows(), 2);
});

test("a value that cannot be stored fails its own statement and transaction, and nothing else", async (t) => {
  const { sql, rows } = await open(t);
  const wrong = [() => {}, Symbol("x"), { a: 1 }];
  const results = await Promise.allSettled([
    ...wrong.map((value, n) => sql.query(insert, [`wrong ${n}`, value])),
    sql.transaction(async (run) => {
      await run(insert, ["undone", 1]);
      await run(insert, ["wrong", () => {}]);
    }),
    sql.query(insert, ["right", 1]),
  ]);
  const statuses = results.map(({ status }) => status);
  assert.deepEqual(statuses, ["rejected", "rejected", "rejected", "rejected", "fulfilled"]);
  await sql.query(insert, ["later", 1]);
  assert.equal(await rows(), 2);
});

test("a transaction that hangs ends after its time, and what waits for it succeeds", async (t) => {
  const clock = manualClock();
  const sql = await openFolderSql(t, temporaryFolder(t), clock);
  const begun = Promise.withResolvers<void>();
  const hanging = sql.transaction(async (run) => {
    await run(insert, ["hanging", 1]);
    begun.resolve();
    await new Promise(() => {});
  });
  await begun.promise;
  const waiting = sql.query(insert, ["waiting", 1]);
  clock.advance(5_000);
  await assert.rejects(hanging, /took longer/);
  await waiting;
  assert.deepEqual(await sql.query("SELECT id FROM sluice.claims"), [{ id: "waiting" }]);
});

test("a full disk fails all statements of the moment and nothing else, and later ones succeed", async (t) => {
  const { sql, rows } = await open(t);
  const [pages] = await sql.query("SELECT page_count FROM pragma_page_count()");
  await sql.query(`PRAGMA max_page_count = ${Number(pages?.["page_count"]) + 2}`);
  const results = await Promise.allSettled([
    sql.query(insert, ["small", 1]),
    sql.query(insert, ["x".repeat(100_000), 1]),
    sql.transaction((run) => run(insert, ["small too", 1])),
  ]);
  for (const result of results) {
    assert.ok(result.status === "rejected" && code("SLUICE_STORE_FULL")(result.reason));
  }
  assert.equal(await rows(), 0);
  await sql.query("PRAGMA max_page_count = 1000000");
  await sql.query(insert, ["x".repeat(100_000), 1]);
  assert.equal(await rows(), 1);
});

test("statements of a transaction that were sent before it failed are not committed", async (t) => {
  const { sql, rows } = await open(t);
  const [pages] = await sql.query("SELECT page_count FROM pragma_page_count()");
  await sql.query(`PRAGMA max_page_count = ${Number(pages?.["page_count"]) + 2}`);
  const both = sql.transaction((run) =>
    Promise.all([run(insert, ["x".repeat(100_000), 1]), run(insert, ["small", 1])]),
  );
  await assert.rejects(both, code("SLUICE_STORE_FULL"));
  assert.equal(await rows(), 0);
});

test("too many statements that wait are refused at once", async (t) => {
  const { sql } = await open(t);
  const asked = Array.from({ length: 10_001 }, () => sql.query("SELECT 1 AS one"));
  const results = await Promise.allSettled(asked);
  const refused = results.filter(({ status }) => status === "rejected");
  assert.equal(refused.length, 1);
});

test("what was confirmed before SIGKILL is there, and transactions are whole", async (t) => {
  const folder = temporaryFolder(t);
  const killed = await runModule(`
    const { openFolderSql } = await import(${JSON.stringify(sourceUrl("test/store/open-sql.ts"))});
    const { writeSync } = await import("node:fs");
    const sql = await openFolderSql({ after() {} }, ${JSON.stringify(folder)});
    const insert = ${JSON.stringify(insert)};
    let confirmed = 0;
    for (let worker = 0; worker < 8; worker++) void (async () => {
      for (let n = 0; ; n++) {
        const id = worker + "/" + n;
        await (n % 2 === 0
          ? sql.query(insert, [id + "/one", 1])
          : sql.transaction(async (run) => {
              await run(insert, [id + "/one", 1]);
              await run(insert, [id + "/two", 1]);
            }));
        writeSync(1, id + "\\n");
        if (++confirmed === 200) process.kill(process.pid, "SIGKILL");
      }
    })();`);
  const confirmed = killed.out.trim().split("\n");
  assert.ok(confirmed.length >= 200, killed.err);
  const sql = await openFolderSql(t, folder);
  const ids = new Set(
    (await sql.query("SELECT id FROM sluice.claims")).map(({ id }) => String(id)),
  );
  for (const id of confirmed) assert.ok(ids.has(`${id}/one`), id);
  for (const id of ids) {
    const [worker, n, part] = id.split("/");
    if (Number(n) % 2 === 0) continue;
    assert.ok(ids.has(`${worker}/${n}/${part === "one" ? "two" : "one"}`), id);
  }
});

const root = join(import.meta.dirname, "../../..");
/** They name both stores, choose the driver, or move rows from one store to the other. */
const exceptions = `
    plugins/billing/leases/copy-charges.ts src/contract/store.ts
    src/gateway/open-host-resources.ts src/module.ts src/pipeline/load/databases.ts
    src/pipeline/load/migrations.ts src/store/postgres/move-store.ts`
  .trim()
  .split(/\s+/);
const usesTables = /import (?:type )?\{[^}]*\b(?:Sql|RunSql|Tables|Script)\b[^}]*\} from/;
const dialect = /sqlite|postgres|dialect/i;

function linesWithDialect(source: string): string[] {
  return source
    .replaceAll(/\/\*[^]*?\*\//g, "")
    .split("\n")
    .filter((line) => !line.trim().startsWith("//") && dialect.test(line));
}

const users = globSync("{src,plugins}/**/*.ts", { cwd: root }).filter(
  (file) =>
    !file.startsWith("src/store/sql/") &&
    !exceptions.includes(file) &&
    usesTables.test(readFileSync(join(root, file), "utf8")),
);

test("no module that uses the tables knows on which store it runs", () => {
  assert.ok(users.includes("src/store/claims.ts"), "the users of the tables were not found");
  assert.ok(users.includes("plugins/dashboard/dashboard/history/store.ts"));
  for (const file of users) {
    assert.deepEqual(linesWithDialect(readFileSync(join(root, file), "utf8")), [], file);
  }
});

test("a text in the dialect of PostgreSQL becomes one of SQLite", () => {
  assert.equal(
    sqliteText("SELECT CAST($1 AS bytea) FROM sluice.a WHERE b = $12 AND c > sluice.now_ms()"),
    "SELECT CAST(?1 AS blob) FROM a WHERE b = ?12 AND c > now_ms()",
  );
  assert.equal(
    sqliteText('CREATE TABLE sluice.a (key text COLLATE "C", value json NOT NULL)'),
    "CREATE TABLE a (key text, value text NOT NULL)",
  );
});
