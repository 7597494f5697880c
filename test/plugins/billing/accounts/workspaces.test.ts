import assert from "node:assert/strict";
import { test } from "node:test";
import { applyDuePlan } from "../../../../plugins/billing/accounts/plans.ts";
import { accountsFixture, day } from "./fixture.ts";

test("a workspace can be read as it was created", async (t) => {
  const { by, clock, store } = await accountsFixture(t);
  const made = await store.createWorkspace(
    { name: "Ünï ☃", plan: "free", overageLimitCuMilli: 0 },
    by(),
  );
  assert.match(made.id, /^ws_[0-9a-f]{24}$/);
  assert.deepEqual(await store.findWorkspace(made.id), made);
  assert.deepEqual(made, {
    id: made.id,
    name: "Ünï ☃",
    plan: "free",
    pendingPlan: undefined,
    pendingPlanAt: undefined,
    purchasedTotalMilliCu: 0,
    overageLimitCuMilli: 0,
    createdAt: clock.now(),
  });
});

test("workspaces are listed oldest first", async (t) => {
  const { by, clock, workspace, store, idle } = await accountsFixture(t);
  clock.advance(1);
  await idle();
  const second = await store.createWorkspace({ name: "b", plan: "free" }, by());
  clock.advance(1);
  await idle();
  const third = await store.createWorkspace({ name: "a", plan: "startup" }, by());
  assert.deepEqual(await store.listWorkspaces(), [workspace, second, third]);
});

test("a pending plan is in force from its time on and not before", async (t) => {
  const { by, workspace, clock, store } = await accountsFixture(t);
  const at = clock.now() + day;
  const pending = await store.downgrade(workspace.id, { plan: "free", at }, by());
  assert.deepEqual(pending, { ...workspace, pendingPlan: "free", pendingPlanAt: at });
  assert.ok(!("failed" in pending));
  assert.equal(applyDuePlan(pending, at - 1), pending);
  assert.deepEqual(applyDuePlan(pending, at), { ...workspace, plan: "free" });
});

test("a plan set by an operator cancels a pending plan", async (t) => {
  const { by, workspace, clock, store } = await accountsFixture(t);
  await store.downgrade(workspace.id, { plan: "free", at: clock.now() + day }, by());
  const set = await store.setWorkspace(workspace.id, { plan: "startup" }, by());
  assert.deepEqual(set, { ...workspace, plan: "startup" });
});

test("an amount that is not a positive integer throws and changes nothing", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  for (const amount of [0, -1, 1.5, NaN, Infinity, 2 ** 53]) {
    await assert.rejects(store.purchase(workspace.id, amount, by()), RangeError, String(amount));
  }
  assert.deepEqual(await store.findWorkspace(workspace.id), workspace);
});
