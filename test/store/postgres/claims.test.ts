/** Tests of the contract of claims on PostgreSQL after a restore: see also test/contract/claims.ts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../../../src/base/metrics.ts";
import { claimTables, openClaims, type ClaimsService } from "../../../src/store/claims.ts";
import { upgradeSchema } from "../../../src/store/postgres/migrations.ts";
import { openPostgres } from "../../../src/store/postgres/postgres.ts";
import { postgresSql } from "../../../src/store/sql/postgres-sql.ts";
import { postgresScripts } from "../../../src/store/sql/tables.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { until } from "../../plugins/billing/shipping/fixture.ts";
import { createDatabase, runSql } from "../servers.ts";
import { silentLog } from "../../test-log.ts";
import { createSession } from "../../../src/store/session.ts";

test("after a restore, which gives numbers of endings again, a running gateway still follows", async (t) => {
  const url = await createDatabase(t);
  const pool = openPostgres({ url, replica: "one", metrics: createMetrics() });
  t.after(() => pool.close());
  await upgradeSchema(pool, postgresScripts(claimTables), createSeal("a secret"));
  const open = async (): Promise<ClaimsService> => {
    const sql = postgresSql(pool, "claims");
    const session = createSession(sql.query, systemClock);
    const claims = await openClaims(sql, session, systemClock, silentLog);
    t.after(() => claims.close());
    return claims;
  };
  const one = await open();
  const two = await open();
  const later = Date.now() + 60_000;
  for (const id of ["a", "b", "c"]) await one.end(id, later);
  await until(() => Promise.resolve(two.hasEnded("c")));
  await runSql(
    url,
    "DELETE FROM sluice.endings WHERE id <> 'a'",
    "SELECT setval('sluice.endings_no', 1)",
  );
  await one.end("d", later);
  await until(() => Promise.resolve(two.hasEnded("d")));
  assert.ok(two.hasEnded("b"), "what has ended stays ended");
});
