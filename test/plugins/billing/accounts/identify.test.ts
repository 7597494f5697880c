import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { newKeyText } from "../../../../plugins/billing/accounts/key-text.ts";
import { accountsFixture, day, hour, known, plans, refusal } from "./fixture.ts";

test("the header of a key identifies the key, its workspace, its plan and its rate", async (t) => {
  const { issue, open, workspace } = await accountsFixture(t);
  const { key, text } = await issue({
    rpsLimit: 3,
    cuLimit24hMilli: 5,
    capabilities: ["docs:read"],
  });
  const accounts = await open();
  const principal = await known(accounts.identify(`Bearer ${text}`));
  const { lastUsedAt: _used, rotatedTo: _rotated, ...plain } = key;
  assert.deepEqual(principal, {
    kind: "key",
    key: plain,
    workspace,
    plan: { name: "developer", ...plans.developer },
    rps: 3,
  });
});

test("the rate is the lower of the rates of the key and the plan", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const accounts = await open();
  const rps = async (rpsLimit: number | undefined): Promise<number> =>
    (await known(accounts.identify(`Bearer ${(await issue({ rpsLimit })).text}`))).rps;
  assert.deepEqual(
    [await rps(undefined), await rps(0.5), await rps(10), await rps(1_000)],
    [10, 0.5, 10, 10],
  );
});

test("the same key always gets the same principal object", async (t) => {
  const { issue, open, clock } = await accountsFixture(t);
  const accounts = await open();
  const { key, text } = await issue();
  const first = `Bearer ${text}`;
  const second = `Bearer ${(await issue()).text}`;
  const principal = await accounts.identify(first);
  clock.jump(10 * day);
  assert.equal(accounts.identify(first), principal);
  assert.equal(await accounts.identifyKey(key.id, ""), principal);
  assert.equal(accounts.identifyKey(key.id, ""), principal);
  assert.notEqual(await accounts.identify(second), principal);
  assert.equal(accounts.stats().lookups, 2);
});

test("each reason for an anonymous caller has its message", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const accounts = await open();
  const { text } = await issue();
  const hex = text.slice(-32);
  const because = (header: string | undefined): Promise<string> =>
    refusal(accounts.identify(header));
  assert.equal(await because(undefined), "missing authorization header");
  for (const header of [
    "",
    "Bearer",
    "Bearer ",
    text,
    `bearer ${text}`,
    `BEARER ${text}`,
    `Token ${text}`,
    `Basic ${text}`,
    `Bearer  ${text}`,
    `Bearer\t${text}`,
    ` Bearer ${text}`,
    `Bearer ${text} `,
    `Bearer ${text},`,
    `Bearer "${text}"`,
    `Bearer ${text}${text}`,
    `Bearer ${text.slice(0, -1)}`,
    `Bearer ${text}0`,
    `Bearer ${text.slice(0, -1)}g`,
    `Bearer gateway_test_${hex}`,
    `Bearer GATEWAY_dev_${hex}`,
    `Bearer gateway_Dev_${hex}`,
    `Bearer gateway-dev-${hex}`,
    `Bearer ${hex}`,
  ]) {
    assert.equal(await because(header), "invalid authorization format", header);
  }
  for (const header of [
    `Bearer ${newKeyText("dev")}`,
    `Bearer gateway_dev_${hex.toUpperCase().replace(/^./, "A")}`,
    `Bearer gateway_stage_${hex}`,
    `Bearer gateway_prod_${hex}`,
  ]) {
    assert.equal(await because(header), "unauthorized", header);
  }
  assert.equal((await known(accounts.identify(`Bearer ${text}`))).kind, "key");
});

test("only the exact header of a key is accepted, and no header throws", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const { text } = await issue();
  const header = `Bearer ${text}`;
  const accounts = await open();
  const spoiled = fc
    .record({ at: fc.nat(header.length), take: fc.nat(2), put: fc.string({ maxLength: 2 }) })
    .map(({ at, take, put }) => header.slice(0, at) + put + header.slice(at + take));
  await fc.assert(
    fc.asyncProperty(fc.oneof(spoiled, fc.string({ unit: "binary" })), async (line) => {
      assert.equal((await accounts.identify(line)).kind === "key", line === header, line);
    }),
    { numRuns: 1_000 },
  );
});

test("a key of another environment is unauthorized in every deployment", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const environments = ["dev", "stage", "prod"] as const;
  const issued = await Promise.all(environments.map((environment) => issue({ environment })));
  for (const environment of environments) {
    const accounts = await open({ environment });
    const answers = await Promise.all(
      issued.map(async ({ text }) => accounts.identify(`Bearer ${text}`)),
    );
    const expected = environments.map((each) => (each === environment ? "key" : "unauthorized"));
    assert.deepEqual(
      answers.map((answer) => (answer.kind === "anonymous" ? answer.reason : answer.kind)),
      expected,
    );
    assert.equal(accounts.stats().lookups, 1);
  }
});

test("a revoked key is unauthorized, even if it has also expired", async (t) => {
  const { by, clock, issue, open, store } = await accountsFixture(t);
  const { key, text } = await issue({ expiresAt: clock.now() });
  await store.revokeKey(key.id, by());
  assert.equal(await refusal((await open()).identify(`Bearer ${text}`)), "unauthorized");
});

test("a key expires exactly at its time, with its own message", async (t) => {
  const { clock, issue, open, idle } = await accountsFixture(t);
  const header = `Bearer ${(await issue({ expiresAt: clock.now() + 1_000 })).text}`;
  const accounts = await open();
  const principal = await accounts.identify(header);
  clock.advance(999);
  await idle();
  assert.equal(accounts.identify(header), principal);
  clock.advance(1);
  await idle();
  assert.equal(await refusal(accounts.identify(header)), "api key has expired");
  assert.equal(accounts.stats().lookups, 1);
});

test("an expired key is valid again if the clock is set back", async (t) => {
  const { clock, issue, open } = await accountsFixture(t);
  const header = `Bearer ${(await issue({ expiresAt: clock.now() + 1_000 })).text}`;
  const accounts = await open();
  clock.jump(hour);
  assert.equal(await refusal(accounts.identify(header)), "api key has expired");
  clock.jump(-hour);
  assert.equal((await accounts.identify(header)).kind, "key");
});

test("a pending plan is in force from its time on, without a database read", async (t) => {
  const { by, clock, workspace, issue, open, store } = await accountsFixture(t);
  const at = clock.now() + day;
  await store.downgrade(workspace.id, { plan: "free", at }, by());
  const header = `Bearer ${(await issue()).text}`;
  const accounts = await open();
  const before = await known(accounts.identify(header));
  assert.deepEqual([before.plan.name, before.rps], ["developer", 10]);
  assert.equal(before.workspace.pendingPlan, "free");

  clock.jump(day - 1);
  assert.equal(accounts.identify(header), before);
  clock.jump(1);
  const after = await known(accounts.identify(header));
  assert.deepEqual([after.plan.name, after.rps], ["free", 2]);
  assert.deepEqual(after.workspace, { ...workspace, plan: "free" });
  clock.jump(day);
  assert.equal(accounts.identify(header), after);
  assert.equal(accounts.stats().lookups, 1);

  clock.jump(-day - 1);
  assert.equal((await known(accounts.identify(header))).plan.name, "developer");
});

test("a reload with changed plans creates new principals, and one with the same plans does not", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const header = `Bearer ${(await issue()).text}`;
  const accounts = await open();
  const before = await accounts.identify(header);
  accounts.setPlans(structuredClone(plans));
  assert.equal(accounts.identify(header), before);
  accounts.setPlans({ ...plans, developer: { ...plans.developer, rps: 7 } });
  const after = await known(accounts.identify(header));
  assert.notEqual(after, before);
  assert.deepEqual([after.plan.rps, after.rps], [7, 7]);
  assert.equal((await known(accounts.identify(`Bearer ${(await issue()).text}`))).rps, 7);
});

test("repeated bad keys read the database once", async (t) => {
  const { open } = await accountsFixture(t);
  const accounts = await open();
  const headers = Array.from({ length: 5 }, () => `Bearer ${newKeyText("dev")}`);
  for (let round = 0; round < 3; round++) {
    for (const header of headers)
      assert.equal(await refusal(accounts.identify(header)), "unauthorized");
  }
  assert.deepEqual(accounts.stats(), { healthy: true, keys: 0, unknown: 5, lookups: 5 });
});

test("a flood of bad keys stays within the limits and evicts no valid key", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const header = `Bearer ${(await issue()).text}`;
  const accounts = await open({ remember: { keys: 2, unknown: 10 } });
  const principal = await accounts.identify(header);
  await Promise.all(
    Array.from({ length: 100 }, async () => accounts.identify(`Bearer ${newKeyText("dev")}`)),
  );
  assert.equal(accounts.identify(header), principal);
  assert.deepEqual(accounts.stats(), { healthy: true, keys: 1, unknown: 10, lookups: 101 });
});

test("more keys than the cache holds are read again, and all of them work", async (t) => {
  const { issue, open } = await accountsFixture(t);
  const accounts = await open({ remember: { keys: 2, unknown: 2 } });
  const issued = await Promise.all(Array.from({ length: 5 }, () => issue()));
  for (let round = 0; round < 2; round++) {
    for (const { key, text } of issued) {
      assert.equal((await known(accounts.identify(`Bearer ${text}`))).key.id, key.id);
    }
  }
  assert.deepEqual(accounts.stats(), { healthy: true, keys: 2, unknown: 0, lookups: 10 });
});

test("a revoked or expired key does not reveal that it is bound to addresses", async (t) => {
  const { by, clock, issue, open, store } = await accountsFixture(t);
  const bound = { allowedAddresses: ["10.0.0.1"], expiresAt: clock.now() + hour };
  const [expiring, revoked] = [await issue(bound), await issue(bound)];
  await store.revokeKey(revoked.key.id, by());
  const accounts = await open();
  assert.equal(
    await refusal(accounts.identify(`Bearer ${revoked.text}`, "10.0.0.2")),
    "unauthorized",
  );
  clock.jump(hour);
  const late = await accounts.identify(`Bearer ${expiring.text}`, "10.0.0.2");
  assert.equal(await refusal(late), "api key has expired");
});
