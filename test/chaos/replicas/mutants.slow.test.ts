/** Each mutant makes the mistake that it stands for, and the function without a mutant does not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { upgrade } from "../../plugins/billing/shipping/fixture.ts";
import { createDatabase, runSql } from "../../store/servers.ts";
import { applyMutant, mutantNames, type MutantName } from "./mutants.ts";
import { readAudit, startAudit } from "./audit.ts";
import { faultSets, planFaults } from "./schedule.ts";

const row = {
  time: "2026-11-01T00:00:00Z",
  seq: 1,
  workspace_id: "ws_1",
  key_id: "key_1",
  surface: "s",
  method: "m",
  request_id: "r",
  used_cu_milli: 7,
  input_tokens: 0,
  output_tokens: 0,
  estimated: false,
  outcome: "complete",
  taken: 7,
  key_taken: 7,
};
const post = `SELECT sluice.credit_post(1, 1, 1, '${JSON.stringify([row])}')`;

/** Returns the number of charges after a batch was sent twice, or the code of the error of the second time. */
async function sendTwice(url: string): Promise<unknown> {
  try {
    await runSql(url, post, post);
  } catch (error) {
    return (error as { readonly code: string }).code;
  }
  return countCharges(url);
}

async function sendLate(url: string): Promise<unknown> {
  await runSql(
    url,
    "TRUNCATE sluice.charges",
    "UPDATE sluice.replicas SET state = 'fenced', posted = 0",
    post,
  );
  return countCharges(url);
}

async function countCharges(url: string): Promise<unknown> {
  const [counted] = await runSql(url, "SELECT count(*)::int AS charges FROM sluice.charges");
  return counted?.["charges"];
}

const uniqueViolation = "23505";
/** Outcomes of a batch that is sent twice, and of one that arrives after a fence. */
const outcomes: Readonly<Record<MutantName | "none", readonly unknown[]>> = {
  none: [1, 0],
  "no comparison": [uniqueViolation, 0],
  "no comparison, no primary key": [2, 0],
  "no fence": [1, 1],
};

for (const name of ["none", ...mutantNames] as const) {
  test(`a batch that is sent twice, and one after a fence, with the mutant: ${name}`, async (t) => {
    const url = await createDatabase(t);
    await upgrade(url);
    await runSql(
      url,
      `INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at) VALUES ('one', 'test', 'settled', 'live', sluice.now_ms(), sluice.now_ms())`,
    );
    if (name !== "none") await applyMutant(url, name);
    assert.deepEqual([await sendTwice(url), await sendLate(url)], outcomes[name]);
  });
}

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

test("a seed decides the faults", () => {
  assert.deepEqual(planFaults(7, 600_000, 3), planFaults(7, 600_000, 3));
  assert.notDeepEqual(planFaults(7, 600_000, 3), planFaults(8, 600_000, 3));
});

test("two minutes of any seed have every fault, two to five seconds apart", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const planned = planFaults(seed, 120_000, 3);
    const kinds = new Set(planned.map(({ fault }) => fault.kind));
    assert.deepEqual([...kinds].sort(), Object.keys(faultSets.all).sort());
    for (const [n, { atMs }] of planned.entries()) {
      const gap = atMs - (planned[n - 1]?.atMs ?? 0);
      assert.ok(gap >= 2_000 && gap < 5_000, `${gap} ms`);
    }
  }
});
