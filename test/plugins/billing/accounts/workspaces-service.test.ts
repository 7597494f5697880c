/** Tests of `workspaces` of the service `accounts`, with a second gateway on the same folder. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { Workspaces } from "sluice-gateway/services";
import type { AccountsService } from "../../../../plugins/billing/accounts/accounts.ts";
import {
  createWorkspaces,
  type WorkspacesDeps,
} from "../../../../plugins/billing/accounts/workspaces-service.ts";
import { accountsFixture, type AccountsFixture } from "./fixture.ts";
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

test("a store that cannot be written is not changed, and the result is unavailable", async (t) => {
  const { workspaces, db, id, store } = await serve(t);
  db.exec("ALTER TABLE changes RENAME TO changes_elsewhere");
  assert.deepEqual(await workspaces.purchase(id, 5, by), { kind: "unavailable" });
  assert.equal((await workspaces.find(id)).kind, "done");
  db.exec("ALTER TABLE changes_elsewhere RENAME TO changes");
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
