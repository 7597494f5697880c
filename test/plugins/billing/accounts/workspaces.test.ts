import assert from "node:assert/strict";
import { test } from "node:test";
import { listChanges } from "../../../../plugins/billing/accounts/embedded/change-log.ts";
import { applyDuePlan } from "../../../../plugins/billing/accounts/plans.ts";
import {
  createWorkspace,
  downgrade,
  findWorkspace,
  listWorkspaces,
  purchase,
  setWorkspace,
} from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import { accountsFixture, day } from "./fixture.ts";

const unknownWorkspace = { failed: "notFound", message: "there is no workspace ws_none" };

test("a workspace can be read as it was created", (t) => {
  const { db, by, clock } = accountsFixture(t);
  const made = createWorkspace(db, { name: "Ünï ☃", plan: "free", overageLimitCuMilli: 0 }, by());
  assert.match(made.id, /^ws_[0-9a-f]{24}$/);
  assert.deepEqual(findWorkspace(db, made.id), made);
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

test("workspaces are listed oldest first", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  clock.advance(1);
  const second = createWorkspace(db, { name: "b", plan: "free" }, by());
  clock.advance(1);
  const third = createWorkspace(db, { name: "a", plan: "startup" }, by());
  assert.deepEqual(listWorkspaces(db), [workspace, second, third]);
});

test("an operator can set plan and overage limit separately, and remove the limit", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  const { id } = workspace;
  const limited = { ...workspace, overageLimitCuMilli: 5_000 };
  assert.deepEqual(setWorkspace(db, id, { overageLimitCuMilli: 5_000 }, by()), limited);
  const moved = { ...limited, plan: "free" };
  assert.deepEqual(setWorkspace(db, id, { plan: "free" }, by()), moved);
  const free = { ...moved, overageLimitCuMilli: undefined };
  assert.deepEqual(setWorkspace(db, id, { overageLimitCuMilli: null }, by()), free);
  assert.deepEqual(findWorkspace(db, id), free);
});

test("a pending plan is in force from its time on and not before", (t) => {
  const { db, by, workspace, clock } = accountsFixture(t);
  const at = clock.now() + day;
  const pending = downgrade(db, workspace.id, { plan: "free", at }, by());
  assert.deepEqual(pending, { ...workspace, pendingPlan: "free", pendingPlanAt: at });
  assert.ok(!("failed" in pending));
  assert.equal(applyDuePlan(pending, at - 1), pending);
  assert.deepEqual(applyDuePlan(pending, at), { ...workspace, plan: "free" });
});

test("a plan set by an operator cancels a pending plan", (t) => {
  const { db, by, workspace, clock } = accountsFixture(t);
  downgrade(db, workspace.id, { plan: "free", at: clock.now() + day }, by());
  const set = setWorkspace(db, workspace.id, { plan: "startup" }, by());
  assert.deepEqual(set, { ...workspace, plan: "startup" });
});

test("purchases add up and have distinct ids", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  const first = purchase(db, workspace.id, 1_000, by());
  const second = purchase(db, workspace.id, 500, by());
  assert.ok(!("failed" in first) && !("failed" in second));
  assert.match(first.purchaseId, /^pur_[0-9a-f]{24}$/);
  assert.notEqual(first.purchaseId, second.purchaseId);
  assert.deepEqual(second.workspace, { ...workspace, purchasedTotalMilliCu: 1_500 });
  assert.deepEqual(findWorkspace(db, workspace.id), second.workspace);
});

test("a purchase that would make the total inexact is refused and changes nothing", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  purchase(db, workspace.id, Number.MAX_SAFE_INTEGER, by());
  const before = listChanges(db).length;
  const refused = purchase(db, workspace.id, 1, by());
  assert.ok("failed" in refused && refused.failed === "conflict");
  assert.equal(findWorkspace(db, workspace.id)?.purchasedTotalMilliCu, Number.MAX_SAFE_INTEGER);
  assert.equal(listChanges(db).length, before);
});

test("an amount that is not a positive integer throws and changes nothing", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  for (const amount of [0, -1, 1.5, NaN, Infinity, 2 ** 53]) {
    assert.throws(() => purchase(db, workspace.id, amount, by()), RangeError, String(amount));
  }
  assert.deepEqual(findWorkspace(db, workspace.id), workspace);
});

test("an unknown workspace is reported as not found, and nothing is logged", (t) => {
  const { db, by } = accountsFixture(t);
  const before = listChanges(db).length;
  assert.equal(findWorkspace(db, "ws_none"), undefined);
  assert.deepEqual(setWorkspace(db, "ws_none", { plan: "free" }, by()), unknownWorkspace);
  assert.deepEqual(downgrade(db, "ws_none", { plan: "free", at: 0 }, by()), unknownWorkspace);
  assert.deepEqual(purchase(db, "ws_none", 1, by()), unknownWorkspace);
  assert.equal(listChanges(db).length, before);
});
