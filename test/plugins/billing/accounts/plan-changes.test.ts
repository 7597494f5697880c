import assert from "node:assert/strict";
import { test } from "node:test";
import { applyDuePlan } from "../../../../plugins/billing/accounts/plans.ts";
import { accountsFixture, day } from "./fixture.ts";

const conflict = (message: string): object => ({ failed: "conflict", message });

test("an upgrade is in force at once, and the same or a lower plan is refused", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  const { id } = workspace;
  assert.deepEqual(await store.upgrade(id, "startup", by()), { ...workspace, plan: "startup" });
  const none = (plan: string): object => conflict(`${plan} is not an upgrade from startup`);
  assert.deepEqual(await store.upgrade(id, "startup", by()), none("startup"));
  assert.deepEqual(await store.upgrade(id, "free", by()), none("free"));
  assert.deepEqual(await store.findWorkspace(id), { ...workspace, plan: "startup" });
  assert.equal((await store.changes()).length, 2);
});

test("a downgrade waits for its time, and the same or a higher plan is refused", async (t) => {
  const { by, clock, workspace, store } = await accountsFixture(t);
  const { id } = workspace;
  const at = clock.now() + day;
  const none = (plan: string): object => conflict(`${plan} is not a downgrade from developer`);
  assert.deepEqual(await store.downgrade(id, { plan: "developer", at }, by()), none("developer"));
  assert.deepEqual(await store.downgrade(id, { plan: "startup", at }, by()), none("startup"));
  assert.deepEqual(await store.findWorkspace(id), workspace);
  const pending = { ...workspace, pendingPlan: "free", pendingPlanAt: at };
  assert.deepEqual(await store.downgrade(id, { plan: "free", at }, by()), pending);
  assert.deepEqual(await store.findWorkspace(id), pending);
});

test("a second downgrade replaces the first", async (t) => {
  const { by, clock, workspace, store } = await accountsFixture(t);
  const { id } = workspace;
  const at = clock.now() + day;
  await store.upgrade(id, "enterprise", by());
  await store.downgrade(id, { plan: "free", at }, by());
  const second = await store.downgrade(id, { plan: "startup", at }, by());
  assert.ok(!("failed" in second));
  assert.deepEqual([second.plan, second.pendingPlan], ["enterprise", "startup"]);
});

test("an upgrade cancels a pending downgrade and logs it", async (t) => {
  const { by, clock, workspace, store } = await accountsFixture(t);
  const { id } = workspace;
  await store.downgrade(id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(await store.upgrade(id, "startup", by()), { ...workspace, plan: "startup" });
  assert.deepEqual((await store.changes()).at(-1)?.details, {
    from: "developer",
    to: "startup",
    calledOff: "free",
  });
});

test("a pending downgrade can be cancelled once, and not after it is due", async (t) => {
  const { by, clock, workspace, store, idle } = await accountsFixture(t);
  const { id } = workspace;
  const none = conflict("no downgrade is pending");
  assert.deepEqual(await store.cancelDowngrade(id, by()), none);
  await store.downgrade(id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(await store.cancelDowngrade(id, by()), workspace);
  assert.deepEqual(await store.cancelDowngrade(id, by()), none);

  await store.downgrade(id, { plan: "free", at: clock.now() + day }, by());
  clock.advance(day);
  await idle();
  assert.deepEqual(await store.cancelDowngrade(id, by()), none);
  const stored = await store.findWorkspace(id);
  assert.equal(stored && applyDuePlan(stored, clock.now()).plan, "free");
});

test("upgrades and downgrades are compared with the plan in force, including a due downgrade", async (t) => {
  const { by, clock, workspace, store, idle } = await accountsFixture(t);
  const { id } = workspace;
  await store.downgrade(id, { plan: "free", at: clock.now() + day }, by());
  clock.advance(day);
  await idle();
  const again = await store.downgrade(id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(again, conflict("free is not a downgrade from free"));
  assert.deepEqual(await store.upgrade(id, "developer", by()), workspace);
});
