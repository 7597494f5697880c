/** Tests of `workspaces` of the service `accounts`, with a second gateway on the same folder. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Workspaces } from "sluice-gateway/services";
import { listChanges } from "../../../../plugins/billing/accounts/embedded/change-log.ts";
import type { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import { findWorkspace } from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import {
  createWorkspaces,
  type WorkspacesDeps,
} from "../../../../plugins/billing/accounts/workspaces-service.ts";
import { atOnce } from "../../../../plugins/contracts/at-once.ts";
import { accountsFixture, known, type AccountsFixture } from "./fixture.ts";
import { silentLog } from "../../../test-log.ts";

const by = { actor: "key_admin", requestId: "req-7" };

interface Served extends AccountsFixture {
  readonly accounts: AccountsService;
  readonly workspaces: Workspaces;
  readonly id: string;
}

function serve(t: TestContext, more: Partial<WorkspacesDeps> = {}): Served {
  const fixture = accountsFixture(t);
  const accounts = fixture.open();
  const workspaces = createWorkspaces({
    store: accounts.store,
    purchasedLeft: ({ purchasedTotalMilliCu }) => purchasedTotalMilliCu - 1,
    usage: { report: () => Promise.resolve({ kind: "unavailable" }) },
    clock: fixture.clock,
    log: silentLog,
    ...more,
  });
  return { ...fixture, accounts, workspaces, id: fixture.workspace.id };
}

test("a purchase is seen by its own gateway at once and by another one 250 ms later", (t) => {
  const { workspaces, accounts, id, issue, open, clock } = serve(t);
  const header = `Bearer ${issue().text}`;
  const other = open();
  const total = (service: AccountsService): number =>
    known(service.identify(header)).workspace.purchasedTotalMilliCu;
  assert.deepEqual([total(accounts), total(other)], [0, 0]);
  const bought = atOnce(workspaces.purchase(id, 700, by));
  assert.ok(bought.kind === "done");
  assert.match(bought.value.purchase_id, /^pur_[0-9a-f]{24}$/);
  assert.equal(bought.value.amount_cu_milli, 700);
  assert.equal(bought.value.workspace.purchased_cu_milli, 699);
  assert.equal(total(accounts), 700);
  clock.advance(250);
  assert.equal(total(other), 700);
});

test("a downgrade takes effect with the next month (UTC)", (t) => {
  const { workspaces, id, clock } = serve(t);
  clock.jump(Date.UTC(2026, 11, 31, 23, 59, 59, 999) - clock.now());
  const pending = atOnce(workspaces.downgrade(id, "free", by));
  assert.ok(pending.kind === "done");
  assert.equal(pending.value.pending_plan_at, "2027-01-01T00:00:00.000Z");
  clock.jump(1);
  const found = atOnce(workspaces.find(id));
  assert.ok(found.kind === "done");
  assert.equal(found.value.plan, "free");
  assert.equal(found.value.pending_plan, undefined);
});

test("a change inside a caller's transaction joins it and is rolled back with it", (t) => {
  const { workspaces, accounts, db, id } = serve(t);
  assert.throws(() =>
    accounts.store.transaction(() => {
      assert.equal(atOnce(workspaces.purchase(id, 5, by)).kind, "done");
      assert.equal(atOnce(workspaces.upgrade(id, "startup", by)).kind, "done");
      throw new Error("the reply was not stored");
    }),
  );
  assert.equal(findWorkspace(db, id)?.purchasedTotalMilliCu, 0);
  assert.equal(findWorkspace(db, id)?.plan, "developer");
  assert.equal(listChanges(db).length, 1);

  const kept = accounts.store.transaction(() => {
    const bought = workspaces.purchase(id, 5, by);
    assert.equal(findWorkspace(db, id)?.purchasedTotalMilliCu, 0, "not committed yet");
    return bought;
  });
  assert.equal(atOnce(kept).kind, "done");
  assert.equal(findWorkspace(db, id)?.purchasedTotalMilliCu, 5);
});

test("the audit log has the actor, the request and the change, in pages", (t) => {
  const { workspaces, id, issue, workspace, clock } = serve(t);
  const { key } = issue({ cuLimit24hMilli: 9, expiresAt: clock.now() + 1 });
  atOnce(workspaces.upgrade(id, "startup", by));
  atOnce(workspaces.purchase(id, 5, by));
  const read = (after: number, limit: number): readonly object[] => {
    const page = atOnce(workspaces.changes(id, { after, limit }));
    assert.ok(page.kind === "done");
    return page.value;
  };
  const all = read(0, 10);
  assert.equal(all.length, 4);
  const time = new Date(workspace.createdAt).toISOString();
  assert.deepEqual(all[1], {
    id: 2,
    time,
    actor: "test",
    workspace_id: id,
    key_id: key.id,
    action: "key.create",
    details: {
      workspace_id: id,
      name: "a key",
      environment: "dev",
      capabilities: ["ledger:read", "platform:read", "docs:read", "inference"],
      cu_limit_24h_milli: 9,
      expires_at: new Date(clock.now() + 1).toISOString(),
    },
  });
  assert.deepEqual(all[2], {
    id: 3,
    time,
    actor: "key_admin",
    request_id: "req-7",
    workspace_id: id,
    action: "workspace.upgrade",
    details: { from: "developer", to: "startup" },
  });
  assert.deepEqual(read(1, 2), all.slice(1, 3));
  assert.deepEqual(read(4, 2), []);
});

test("an unknown workspace is not found by any operation", async (t) => {
  const { workspaces } = serve(t);
  const query = { from: undefined, to: undefined, groupBy: [] };
  for (const answer of [
    workspaces.find("ws_none"),
    workspaces.upgrade("ws_none", "startup", by),
    workspaces.downgrade("ws_none", "free", by),
    workspaces.cancelDowngrade("ws_none", by),
    workspaces.purchase("ws_none", 1, by),
    workspaces.changes("ws_none", { after: 0, limit: 1 }),
    await workspaces.usage("ws_none", query),
  ]) {
    assert.deepEqual(answer, { kind: "notFound" });
  }
});

test("a purchase that could not be counted exactly is refused", (t) => {
  const { workspaces, db, id } = serve(t);
  for (const amount of [0, -1, 1.5, NaN, 2 ** 53]) {
    assert.throws(() => workspaces.purchase(id, amount, by), RangeError);
  }
  assert.equal(atOnce(workspaces.purchase(id, Number.MAX_SAFE_INTEGER, by)).kind, "done");
  assert.equal(atOnce(workspaces.purchase(id, 1, by)).kind, "conflict");
  assert.equal(findWorkspace(db, id)?.purchasedTotalMilliCu, Number.MAX_SAFE_INTEGER);
});

test("a store that another process locks is not changed, and the result is unavailable", (t) => {
  const { workspaces, db, id } = serve(t);
  db.exec("BEGIN IMMEDIATE");
  assert.deepEqual(workspaces.purchase(id, 5, by), { kind: "unavailable" });
  assert.equal(atOnce(workspaces.find(id)).kind, "done");
  db.exec("ROLLBACK");
  assert.equal(atOnce(workspaces.purchase(id, 5, by)).kind, "done");
  assert.equal(findWorkspace(db, id)?.purchasedTotalMilliCu, 5);
});

test("a report covers the current month by default, and one that cannot be made is unavailable", async (t) => {
  const ranges: (readonly [number, number])[] = [];
  const { workspaces, id } = serve(t, {
    usage: {
      report({ from, to }) {
        ranges.push([from, to]);
        return Promise.resolve({ kind: "done", json: new Uint8Array([ranges.length]) });
      },
    },
  });
  const groupBy = ["day"] as const;
  const first = await workspaces.usage(id, { from: undefined, to: undefined, groupBy });
  assert.deepEqual(first, { kind: "done", value: new Uint8Array([1]) });
  await workspaces.usage(id, { from: 1, to: 2, groupBy });
  assert.deepEqual(ranges, [
    [Date.UTC(2026, 0), Date.UTC(2026, 1)],
    [1, 2],
  ]);
  const backwards = await workspaces.usage(id, { from: 2, to: 1, groupBy });
  assert.equal(backwards.kind, "invalid");
  assert.equal(ranges.length, 2);

  const busy = serve(t);
  const query = { from: undefined, to: undefined, groupBy };
  assert.deepEqual(await busy.workspaces.usage(busy.id, query), { kind: "unavailable" });
  const many = serve(t, {
    usage: { report: () => Promise.resolve({ kind: "tooManyGroups", maxGroups: 9 }) },
  });
  assert.deepEqual(await many.workspaces.usage(many.id, query), {
    kind: "invalid",
    message: "more than 9 groups: shorten the range, or group by fewer members",
  });
});
