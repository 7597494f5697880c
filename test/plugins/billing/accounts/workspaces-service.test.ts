/** Usage reports by `workspaces` of the service `accounts`, with a stand-in for the service `metering`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { UsageReports } from "sluice-gateway/services";
import accountsPlugin from "../../../../plugins/billing/accounts/index.ts";
import { testService } from "../../../../plugins/contracts/testing.ts";
import { fakeMetering } from "../../fakes.ts";

test("a report covers the current month by default, and one that cannot be made is unavailable", async () => {
  const ranges: (readonly [number, number])[] = [];
  let made: Awaited<ReturnType<UsageReports["report"]>> = {
    kind: "done",
    json: new Uint8Array([1]),
  };
  const { usage, ...metering } = fakeMetering({});
  const report: UsageReports["report"] = ({ from, to }) => {
    ranges.push([from, to]);
    return Promise.resolve(made);
  };
  const services = { metering: { ...metering, usage: { ...usage, report } } };
  await using tested = await testService(accountsPlugin, { services });
  const { admin, workspaces } = tested.service;
  const { id } = await admin.createWorkspace(
    { name: "Acme", plan: "free" },
    { actor: "test", at: tested.clock.now() },
  );
  const query = { from: undefined, to: undefined, groupBy: ["day"] } as const;
  const done = { kind: "done", value: new Uint8Array([1]) };
  assert.deepEqual(await workspaces.usage(id, query), done);
  await workspaces.usage(id, { ...query, from: 1, to: 2 });
  assert.deepEqual(ranges, [
    [Date.UTC(2026, 0), Date.UTC(2026, 1)],
    [1, 2],
  ]);
  const backwards = await workspaces.usage(id, { ...query, from: 2, to: 1 });
  assert.equal(backwards.kind, "invalid");
  assert.equal(ranges.length, 2);

  made = { kind: "unavailable" };
  assert.deepEqual(await workspaces.usage(id, query), made);
  made = { kind: "tooManyGroups", maxGroups: 9 };
  assert.deepEqual(await workspaces.usage(id, query), {
    kind: "invalid",
    message: "more than 9 groups: shorten the range, or group by fewer members",
  });
});
