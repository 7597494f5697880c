import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../../../src/metrics.ts";
import {
  claimMigrations,
  openPostgresClaims,
  type PostgresClaims,
} from "../../../src/store/postgres/claims.ts";
import { upgradeSchema } from "../../../src/store/postgres/migrations.ts";
import { openPostgres } from "../../../src/store/postgres/postgres.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { systemClock } from "../../../src/clock.ts";
import { until } from "../../plugins/billing/shipping/fixture.ts";
import { createDatabase, runSql } from "../servers.ts";
import { silentLog } from "../../test-log.ts";

test("after a restore, which gives numbers of endings again, a running gateway still follows", async (t) => {
  const url = await createDatabase(t);
  const pool = openPostgres({ url, replica: "one", metrics: createMetrics() });
  t.after(() => pool.close());
  await upgradeSchema(pool, claimMigrations, createSeal("a secret"));
  const open = async (): Promise<PostgresClaims> => {
    const claims = await openPostgresClaims(pool, systemClock, silentLog);
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
