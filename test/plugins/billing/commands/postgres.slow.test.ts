/** The commands of the accounts on a database. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { audit } from "../../../../plugins/billing/commands/audit.ts";
import { keys } from "../../../../plugins/billing/commands/keys.ts";
import { storeCommand } from "../../../../src/commands/store.ts";
import { usage } from "../../../../plugins/billing/commands/usage.ts";
import { workspaces } from "../../../../plugins/billing/commands/workspaces.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { commandLine } from "../../../commands/command-line.ts";

const store = await storeCommand();

test("workspaces, keys and the audit log are in PostgreSQL with store.postgres", async (t) => {
  const { run, json, data } = commandLine(t, "dev", { DATABASE_URL: await createDatabase(t) });
  const early = await run(workspaces, "list");
  assert.equal(early.code, 1);
  assert.match(early.err.join("\n"), /:4:\d+ +SLUICE_STORE_OLDER.*has no tables of Sluice/);
  await run(store, "upgrade");

  const { id } = await json(workspaces, "create", "--name", "Acme", "--plan", "developer");
  const workspace = String(id);
  await json(workspaces, "set", workspace, "--overage-limit", "500");
  await json(workspaces, "purchase", workspace, "--cu", "70");
  assert.equal((await json(workspaces, "show", workspace))["purchased_cu_milli"], 70);
  assert.match((await run(workspaces, "list")).out.join("\n"), /Acme +developer +- +70 +500/);

  const made = await json(keys, "create", "--workspace", workspace, "--cu-24h", "9");
  const key = String(made["id"]);
  assert.equal((await json(keys, "set", key, "--rps", "2.5"))["rps_limit"], 2.5);
  const rotated = await json(keys, "rotate", key, "--overlap", "1h");
  assert.equal(rotated["replaces"], key);
  assert.equal((await json(keys, "revoke", String(rotated["id"])))["state"], "revoked");
  assert.match((await run(keys, "list")).out.join("\n"), new RegExp(`${key} +${workspace}`));
  const missing = await run(keys, "revoke", "key_none");
  assert.deepEqual([missing.code, missing.out.length], [1, 0]);

  const log = (await run(audit)).out;
  assert.deepEqual(
    log.map((line) => line.split("  ")[3]),
    [
      "workspace.create",
      "workspace.set",
      "workspace.purchase",
      "key.create",
      "key.set",
      "key.create",
      "key.rotate",
      "key.revoke",
    ],
  );
  assert.equal(existsSync(join(data, "state.db")), false);
});

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
});

test("the commands need the secret of the deployment", async (t) => {
  const url = await createDatabase(t);
  const { run } = commandLine(t, "dev", { DATABASE_URL: url });
  await run(store, "upgrade");
  const env = { DATABASE_URL: url, GATEWAY_SECRET: "another-secret-of-a-deployment" };
  const other = commandLine(t, "dev", env);
  const { code, err } = await other.run(keys, "list");
  assert.equal(code, 1);
  assert.match(err.join("\n"), /SLUICE_STORE_SECRET/);
});
