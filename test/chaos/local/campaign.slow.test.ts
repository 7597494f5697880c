import assert from "node:assert/strict";
import { test } from "node:test";
import { installedPostgres, packagedPostgres } from "../../store/programs.ts";
import { runCampaign, type CampaignResult } from "./campaign.ts";

function assertExact({ charges, rows, missing, doubled, different, unpaid }: CampaignResult): void {
  assert.deepEqual({ missing, doubled, different, unpaid }, zero);
  assert.equal(rows, charges);
}
const zero = { missing: 0, doubled: 0, different: 0, unpaid: 0 };

test("with a fixed seed and every fault once, the charges of the journal equal the rows of PostgreSQL", async () => {
  assertExact(await runCampaign({ rounds: 7, seed: 1, postgres: await packagedPostgres() }));
});

test("with a fresh seed and the system's PostgreSQL, the charges of the journal equal the rows as well", async (t) => {
  const seed = Date.now() | 0;
  t.diagnostic(`npm run chaos -- --rounds 7 --seed ${seed}`);
  assertExact(await runCampaign({ rounds: 7, seed, postgres: await installedPostgres() }));
});
