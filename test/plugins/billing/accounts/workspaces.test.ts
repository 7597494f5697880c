import assert from "node:assert/strict";
import { test } from "node:test";
import { applyDuePlan } from "../../../../plugins/billing/accounts/plans.ts";
import { accountsFixture, day } from "./fixture.ts";

const unknownWorkspace = { failed: "notFound", message: "there is no workspace ws_none" };

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

test("an operator can set plan and overage limit separately, and remove the limit", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  const { id } = workspace;
  const limited = { ...workspace, overageLimitCuMilli: 5_000 };
  assert.deepEqual(await store.setWorkspace(id, { overageLimitCuMilli: 5_000 }, by()), limited);
  const moved = { ...limited, plan: "free" };
  assert.deepEqual(await store.setWorkspace(id, { plan: "free" }, by()), moved);
  const free = { ...moved, overageLimitCuMilli: undefined };
  assert.deepEqual(await store.setWorkspace(id, { overageLimitCuMilli: null }, by()), free);
  assert.deepEqual(await store.findWorkspace(id), free);
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

test("purchases add up and have distinct ids", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  const first = await store.purchase(workspace.id, 1_000, by());
  const second = await store.purchase(workspace.id, 500, by());
  assert.ok(!("failed" in first) && !("failed" in second));
  assert.match(first.purchaseId, /^pur_[0-9a-f]{24}$/);
  assert.notEqual(first.purchaseId, second.purchaseId);
  assert.deepEqual(second.workspace, { ...workspace, purchasedTotalMilliCu: 1_500 });
  assert.deepEqual(await store.findWorkspace(workspace.id), second.workspace);
});

test("a purchase that would make the total inexact is refused and changes nothing", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  await store.purchase(workspace.id, Number.MAX_SAFE_INTEGER, by());
  const before = (await store.changes()).length;
  const refused = await store.purchase(workspace.id, 1, by());
  assert.ok("failed" in refused && refused.failed === "conflict");
  assert.equal(
    (await store.findWorkspace(workspace.id))?.purchasedTotalMilliCu,
    Number.MAX_SAFE_INTEGER,
  );
  assert.equal((await store.changes()).length, before);
});

test("an amount that is not a positive integer throws and changes nothing", async (t) => {
  const { by, workspace, store } = await accountsFixture(t);
  for (const amount of [0, -1, 1.5, NaN, Infinity, 2 ** 53]) {
    await assert.rejects(store.purchase(workspace.id, amount, by()), RangeError, String(amount));
  }
  assert.deepEqual(await store.findWorkspace(workspace.id), workspace);
});

test("an unknown workspace is reported as not found, and nothing is logged", async (t) => {
  const { by, store } = await accountsFixture(t);
  const before = (await store.changes()).length;
  assert.equal(await store.findWorkspace("ws_none"), undefined);
  assert.deepEqual(await store.setWorkspace("ws_none", { plan: "free" }, by()), unknownWorkspace);
  assert.deepEqual(
    await store.downgrade("ws_none", { plan: "free", at: 0 }, by()),
    unknownWorkspace,
  );
  assert.deepEqual(await store.purchase("ws_none", 1, by()), unknownWorkspace);
  assert.equal((await store.changes()).length, before);
});
