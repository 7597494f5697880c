import assert from "node:assert/strict";
import { test } from "node:test";
import { installedPostgres, packagedPostgres } from "../../store/programs.ts";
import { isExact, runCampaign } from "./campaign.ts";

test("with a fixed seed and every fault once, two gateways with journals lose, double and exceed nothing", async () => {
  const postgres = await packagedPostgres();
  const result = await runCampaign({ rounds: 9, replicas: 2, seed: 1, postgres });
  assert.ok(isExact(result), JSON.stringify(result));
});

test("with a fresh seed and the system's PostgreSQL, one gateway with a journal does the same", async (t) => {
  const seed = Date.now() | 0;
  t.diagnostic(`npm run chaos -- --mode local --rounds 7 --replicas 1 --seed ${seed}`);
  const postgres = await installedPostgres();
  const result = await runCampaign({ rounds: 7, replicas: 1, seed, postgres });
  assert.ok(isExact(result), JSON.stringify(result));
});
