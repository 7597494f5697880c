/** There is one text per query: only the drivers know which store they run it on. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sqliteText } from "../../../src/store/sql/dialect.ts";

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
