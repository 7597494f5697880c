/** Tests of `workspaces` of the service `accounts`, with a second gateway on the same folder. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Workspaces } from "sluice-gateway/services";
import type { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import {
  createWorkspaces,
  type WorkspacesDeps,
} from "../../../../plugins/billing/accounts/workspaces-service.ts";
import { accountsFixture, known, type AccountsFixture } from "./fixture.ts";
import { silentLog } from "../../../test-log.ts";

const by = { actor: "key_admin", requestId: "req-7" };

interface Served extends AccountsFixture {
  readonly accounts: AccountsService;
  readonly workspaces: Workspaces;
  readonly id: string;
}

async function serve(t: TestContext, more: Partial<WorkspacesDeps> = {}): Promise<Served> {
  const fixture = await accountsFixture(t);
  const accounts = await fixture.open();
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

test("a purchase is seen by its own gateway at once and by another one 250 ms later", async (t) => {
  const { workspaces, accounts, id, issue, open, clock, idle } = await serve(t);
  const header = `Bearer ${(await issue()).text}`;
  const other = await open();
  const total = async (service: AccountsService): Promise<number> =>
    (await known(service.identify(header))).workspace.purchasedTotalMilliCu;
  assert.deepEqual([await total(accounts), await total(other)], [0, 0]);
  const bought = await workspaces.purchase(id, 700, by);
  assert.ok(bought.kind === "done");
  assert.match(bought.value.purchase_id, /^pur_[0-9a-f]{24}$/);
  assert.equal(bought.value.amount_cu_milli, 700);
  assert.equal(bought.value.workspace.purchased_cu_milli, 699);
  assert.equal(await total(accounts), 700);
  clock.advance(250);
  await idle();
  assert.equal(await total(other), 700);
});

test("a downgrade takes effect with the next month (UTC)", async (t) => {
  const { workspaces, id, clock } = await serve(t);
  clock.jump(Date.UTC(2026, 11, 31, 23, 59, 59, 999) - clock.now());
  const pending = await workspaces.downgrade(id, "free", by);
  assert.ok(pending.kind === "done");
  assert.equal(pending.value.pending_plan_at, "2027-01-01T00:00:00.000Z");
  clock.jump(1);
  const found = await workspaces.find(id);
  assert.ok(found.kind === "done");
  assert.equal(found.value.plan, "free");
  assert.equal(found.value.pending_plan, undefined);
});

test("a change inside a caller's transaction joins it and is rolled back with it", async (t) => {
  const { workspaces, accounts, id, store } = await serve(t);
  await assert.rejects(
    accounts.store.transaction(async () => {
      assert.equal((await workspaces.purchase(id, 5, by)).kind, "done");
      assert.equal((await workspaces.upgrade(id, "startup", by)).kind, "done");
      throw new Error("the reply was not stored");
    }),
  );
  assert.equal((await store.findWorkspace(id))?.purchasedTotalMilliCu, 0);
  assert.equal((await store.findWorkspace(id))?.plan, "developer");
  assert.equal((await store.changes()).length, 1);

  const kept = accounts.store.transaction(async () => {
    const bought = await workspaces.purchase(id, 5, by);
    assert.equal((await store.findWorkspace(id))?.purchasedTotalMilliCu, 0, "not committed yet");
    return bought;
  });
  assert.equal((await kept).kind, "done");
  assert.equal((await store.findWorkspace(id))?.purchasedTotalMilliCu, 5);
});

test("the audit log has the actor, the request and the change, in pages", async (t) => {
  const { workspaces, id, issue, workspace, clock } = await serve(t);
  const { key } = await issue({ cuLimit24hMilli: 9, expiresAt: clock.now() + 1 });
  await workspaces.upgrade(id, "startup", by);
  await workspaces.purchase(id, 5, by);
  const read = async (after: number, limit: number): Promise<readonly object[]> => {
    const page = await workspaces.changes(id, { after, limit });
    assert.ok(page.kind === "done");
    return page.value;
  };
  const all = await read(0, 10);
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
  assert.deepEqual(await read(1, 2), all.slice(1, 3));
  assert.deepEqual(await read(4, 2), []);
});

test("an unknown workspace is not found by any operation", async (t) => {
  const { workspaces } = await serve(t);
  const query = { from: undefined, to: undefined, groupBy: [] };
  for (const answer of [
    workspaces.find("ws_none"),
    workspaces.upgrade("ws_none", "startup", by),
    workspaces.downgrade("ws_none", "free", by),
    workspaces.cancelDowngrade("ws_none", by),
    workspaces.purchase("ws_none", 1, by),
    workspaces.changes("ws_none", { after: 0, limit: 1 }),
    workspaces.usage("ws_none", query),
  ]) {
    assert.deepEqual(await answer, { kind: "notFound" });
  }
});

test("a purchase that could not be counted exactly is refused", async (t) => {
  const { workspaces, id, store } = await serve(t);
  for (const amount of [0, -1, 1.5, NaN, 2 ** 53]) {
    assert.throws(() => workspaces.purchase(id, amount, by), RangeError);
  }
  assert.equal((await workspaces.purchase(id, Number.MAX_SAFE_INTEGER, by)).kind, "done");
  assert.equal((await workspaces.purchase(id, 1, by)).kind, "conflict");
  assert.equal((await store.findWorkspace(id))?.purchasedTotalMilliCu, Number.MAX_SAFE_INTEGER);
});

test("a store that cannot be written is not changed, and the result is unavailable", async (t) => {
  const { workspaces, db, id, store } = await serve(t);
  db.exec("ALTER TABLE purchases RENAME TO purchases_elsewhere");
  assert.deepEqual(await workspaces.purchase(id, 5, by), { kind: "unavailable" });
  assert.equal((await workspaces.find(id)).kind, "done");
  db.exec("ALTER TABLE purchases_elsewhere RENAME TO purchases");
  assert.equal((await workspaces.purchase(id, 5, by)).kind, "done");
  assert.equal((await store.findWorkspace(id))?.purchasedTotalMilliCu, 5);
});

test("a report covers the current month by default, and one that cannot be made is unavailable", async (t) => {
  const ranges: (readonly [number, number])[] = [];
  const { workspaces, id } = await serve(t, {
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

  const busy = await serve(t);
  const query = { from: undefined, to: undefined, groupBy };
  assert.deepEqual(await busy.workspaces.usage(busy.id, query), { kind: "unavailable" });
  const many = await serve(t, {
    usage: { report: () => Promise.resolve({ kind: "tooManyGroups", maxGroups: 9 }) },
  });
  assert.deepEqual(await many.workspaces.usage(many.id, query), {
    kind: "invalid",
    message: "more than 9 groups: shorten the range, or group by fewer members",
  });
});
