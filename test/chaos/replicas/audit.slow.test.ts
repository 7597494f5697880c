import assert from "node:assert/strict";
import { test } from "node:test";
import { upgrade } from "../../plugins/billing/shipping/fixture.ts";
import { createDatabase, runSql } from "../../store/servers.ts";
import { readAudit, startAudit } from "./audit.ts";

test("the audit finds a commit after which a limit is exceeded, and no other", async (t) => {
  const url = await createDatabase(t);
  await upgrade(url);
  const limit = { limitMilliCu: 10, isFixed: true };
  await startAudit(url, [
    { kind: "key", id: "key_1", ...limit },
    { kind: "workspace", id: "ws_1", ...limit },
  ]);
  const hold = (scope: string, granted: number, spent: number): string =>
    `INSERT INTO sluice.leases VALUES ('${scope}', 1, ${granted}, ${spent}, 0, 0)
       ON CONFLICT (scope, replica) DO UPDATE SET granted = excluded.granted, spent = excluded.spent`;
  await runSql(
    url,
    `INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at) VALUES ('one', 'test', 'settled', 'live', sluice.now_ms(), sluice.now_ms())`,
    "INSERT INTO sluice.used VALUES ('key_1', 'day', 1, 1, 4), ('ws_1', 'period', 0, 1, 4)",
    hold("key_1", 6, 0),
    hold("ws_1", 10, 4),
    // A transaction may exceed a limit in between.
    `BEGIN; ${hold("key_1", 9, 0)}; ${hold("key_1", 6, 0)}; COMMIT`,
  );
  assert.deepEqual((await readAudit(url)).exceeded, []);
  await runSql(url, hold("key_1", 7, 0), hold("ws_1", 11, 4));
  const exceeded = { chargedMilliCu: 4, heldMilliCu: 7, limitMilliCu: 10 };
  const { holdings, ...found } = await readAudit(url);
  assert.deepEqual(found.exceeded, [
    { scope: "key_1", ...exceeded },
    { scope: "ws_1", ...exceeded },
  ]);
  assert.deepEqual(holdings.at(-1)?.heldMilliCu, 7);
  await runSql(url, "DELETE FROM sluice.leases WHERE scope = 'ws_1'");
  assert.deepEqual((await readAudit(url)).holdings.at(-1)?.heldMilliCu, 0);
});
