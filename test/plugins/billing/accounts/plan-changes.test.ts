import assert from "node:assert/strict";
import { test } from "node:test";
import { listChanges } from "../../../../plugins/billing/accounts/embedded/change-log.ts";
import {
  cancelDowngrade,
  downgrade,
  findWorkspace,
  purchase,
  upgrade,
} from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import { applyDuePlan } from "../../../../plugins/billing/accounts/plans.ts";
import { transaction } from "../../../../src/store/sqlite.ts";
import { accountsFixture, day } from "./fixture.ts";

const conflict = (message: string): object => ({ failed: "conflict", message });

test("an upgrade is in force at once, and the same or a lower plan is refused", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  const { id } = workspace;
  assert.deepEqual(upgrade(db, id, "startup", by()), { ...workspace, plan: "startup" });
  const none = (plan: string): object => conflict(`${plan} is not an upgrade from startup`);
  assert.deepEqual(upgrade(db, id, "startup", by()), none("startup"));
  assert.deepEqual(upgrade(db, id, "free", by()), none("free"));
  assert.deepEqual(findWorkspace(db, id), { ...workspace, plan: "startup" });
  assert.equal(listChanges(db).length, 2);
});

test("a downgrade waits for its time, and the same or a higher plan is refused", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  const { id } = workspace;
  const at = clock.now() + day;
  const none = (plan: string): object => conflict(`${plan} is not a downgrade from developer`);
  assert.deepEqual(downgrade(db, id, { plan: "developer", at }, by()), none("developer"));
  assert.deepEqual(downgrade(db, id, { plan: "startup", at }, by()), none("startup"));
  assert.deepEqual(findWorkspace(db, id), workspace);
  const pending = { ...workspace, pendingPlan: "free", pendingPlanAt: at };
  assert.deepEqual(downgrade(db, id, { plan: "free", at }, by()), pending);
  assert.deepEqual(findWorkspace(db, id), pending);
});

test("a second downgrade replaces the first", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  const { id } = workspace;
  const at = clock.now() + day;
  upgrade(db, id, "enterprise", by());
  downgrade(db, id, { plan: "free", at }, by());
  const second = downgrade(db, id, { plan: "startup", at }, by());
  assert.ok(!("failed" in second));
  assert.deepEqual([second.plan, second.pendingPlan], ["enterprise", "startup"]);
});

test("an upgrade cancels a pending downgrade and logs it", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  const { id } = workspace;
  downgrade(db, id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(upgrade(db, id, "startup", by()), { ...workspace, plan: "startup" });
  assert.deepEqual(listChanges(db).at(-1)?.details, {
    from: "developer",
    to: "startup",
    calledOff: "free",
  });
});

test("a pending downgrade can be cancelled once, and not after it is due", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  const { id } = workspace;
  const none = conflict("no downgrade is pending");
  assert.deepEqual(cancelDowngrade(db, id, by()), none);
  downgrade(db, id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(cancelDowngrade(db, id, by()), workspace);
  assert.deepEqual(cancelDowngrade(db, id, by()), none);

  downgrade(db, id, { plan: "free", at: clock.now() + day }, by());
  clock.advance(day);
  assert.deepEqual(cancelDowngrade(db, id, by()), none);
  const stored = findWorkspace(db, id);
  assert.equal(stored && applyDuePlan(stored, clock.now()).plan, "free");
});

test("upgrades and downgrades are compared with the plan in force, including a due downgrade", (t) => {
  const { db, by, clock, workspace } = accountsFixture(t);
  const { id } = workspace;
  downgrade(db, id, { plan: "free", at: clock.now() + day }, by());
  clock.advance(day);
  const again = downgrade(db, id, { plan: "free", at: clock.now() + day }, by());
  assert.deepEqual(again, conflict("free is not a downgrade from free"));
  assert.deepEqual(upgrade(db, id, "developer", by()), workspace);
});

test("an unknown workspace is not found, and nothing is logged", (t) => {
  const { db, by } = accountsFixture(t);
  const unknown = { failed: "notFound", message: "there is no workspace ws_none" };
  assert.deepEqual(upgrade(db, "ws_none", "startup", by()), unknown);
  assert.deepEqual(downgrade(db, "ws_none", { plan: "free", at: 0 }, by()), unknown);
  assert.deepEqual(cancelDowngrade(db, "ws_none", by()), unknown);
  assert.equal(listChanges(db).length, 1);
});

test("changes inside another transaction are committed and rolled back with it", (t) => {
  const { db, by, workspace } = accountsFixture(t);
  const { id } = workspace;
  const before = listChanges(db);
  assert.throws(() =>
    transaction(db, () => {
      upgrade(db, id, "startup", by());
      purchase(db, id, 500, by());
      throw new Error("the reply was not stored");
    }),
  );
  assert.deepEqual(findWorkspace(db, id), workspace);
  assert.deepEqual(listChanges(db), before);
  assert.equal(db.prepare("SELECT count(*) AS n FROM purchases").get()?.["n"], 0);
});
