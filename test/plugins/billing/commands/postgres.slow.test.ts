/** The commands of the accounts on a database. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { commandLine } from "../../../commands/command-line.ts";

const store = await storeCommand();

test("purchased credit that gateways have drawn in PostgreSQL is shown as used, and the export reads PostgreSQL", async (t) => {
  const url = await createDatabase(t);
  const { run, json } = commandLine(t, "dev", { DATABASE_URL: url });
  await run(store, "upgrade");
  const { id } = await json(workspaces, "create", "--name", "Acme", "--plan", "free");
  const workspace = String(id);
  await json(workspaces, "purchase", workspace, "--cu", "70");
  await runSql(
    url,
    `INSERT INTO sluice.used VALUES
     ('${workspace}', 'period', 0, 1, 25), ('${workspace}', 'period', 0, 2, 7)`,
    `INSERT INTO sluice.scopes (id, fixed) VALUES ('${workspace}',
     '[{"start": 0, "includedMilliCu": 5, "purchasedMilliCu": 27, "overageMilliCu": 0}]')`,
  );
  assert.equal((await json(workspaces, "show", workspace))["purchased_cu_milli"], 43);
  const listed = await run(workspaces, "list");
  assert.match(listed.out.join("\n"), /Acme +free +- +43/);
  // No charges were posted with these sums.
  const exported = await run(usage, "export");
  assert.deepEqual([exported.code, exported.out], [0, []]);
  const wrong = run(usage, "export", "--after", "chg_ab_1_0");
  await assert.rejects(wrong, /--after: expected a position/);
});

test("the commands need tables, and the secret of the deployment", async (t) => {
  const url = await createDatabase(t);
  const { run } = commandLine(t, "dev", { DATABASE_URL: url });
  const early = await run(workspaces, "list");
  assert.equal(early.code, 1);
  assert.match(early.err.join("\n"), /:4:\d+ +SLUICE_STORE_OLDER.*has no tables of Sluice/);
  await run(store, "upgrade");
  const env = { DATABASE_URL: url, GATEWAY_SECRET: "another-secret-of-a-deployment" };
  const other = commandLine(t, "dev", env);
  const { code, err } = await other.run(keys, "list");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /SLUICE_STORE_SECRET/);
});
