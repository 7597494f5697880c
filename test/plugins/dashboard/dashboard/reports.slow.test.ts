/** Reports of usage and spend, and the health over time, as the dashboard reads them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { manualClock } from "../../../../src/testing/clock.ts";
import { ask, call, signIn, startWatched } from "./gateway.ts";

interface UsageReport {
  readonly used_cu_milli: number;
  readonly groups: readonly (Readonly<Record<string, unknown>> & {
    readonly day: string;
    readonly used_cu_milli: number;
  })[];
}

const noon = Date.UTC(2026, 10, 21, 12);
const november = "from=2026-11-01&to=2026-12-01";

test("the figures equal those of the usage API, per key and day, by method", async () => {
  const clock = manualClock(noon);
  const usage =
    "  - { path: '/tma/workspaces/{id}/usage', methods: [GET], run: [{ use: edge }, { authorize: { require: 'platform:admin' } }], to: { workspaces: { do: usage } } }\n";
  await using gateway = await startWatched({ clock, append: usage });
  const { workspaceId } = gateway.tenant;
  await call(gateway, gateway.tenant.key);
  clock.jump(86_400_000);
  await call(gateway, gateway.tenant.key);
  await call(gateway, gateway.tenant.key);
  const cookie = await signIn(gateway, gateway.key);
  const range = `${november}&workspace=${workspaceId}`;
  for (const by of ["key", "method"]) {
    const { body: spend } = await ask(gateway, `spend?${range}&by=${by}`, { cookie });
    const url = `${gateway.url}/tma/workspaces/${workspaceId}/usage?${november}&group_by=day,${by}`;
    const response = await fetch(url, { headers: { authorization: `Bearer ${gateway.key}` } });
    const report = (await response.json()) as UsageReport;
    assert.equal(report.used_cu_milli, 1_500);
    assert.equal(spend.total.used_cu_milli, report.used_cu_milli);
    const days = spend.steps.flatMap((milliCu: number, step: number) =>
      milliCu === 0 ? [] : [[`2026-11-${String(step + 1).padStart(2, "0")}`, milliCu]],
    );
    assert.deepEqual(
      days,
      report.groups.map((group) => [group.day, group.used_cu_milli]),
    );
    assert.deepEqual(
      spend.groups.map((group: { id: string; calls: number }) => [group.id, group.calls]),
      [[report.groups[0]?.[by], 3]],
    );
  }
});

test("an answer is cached for ten seconds and then computed again", async () => {
  const clock = manualClock(noon);
  await using gateway = await startWatched({ clock });
  const cookie = await signIn(gateway, gateway.key);
  const used = async (): Promise<number> =>
    (await ask(gateway, `spend?${november}&by=key`, { cookie })).body.total.used_cu_milli;
  await call(gateway, gateway.key);
  assert.equal(await used(), 500);
  await call(gateway, gateway.key);
  assert.equal(await used(), 500);
  clock.advance(10_000);
  assert.equal(await used(), 1_000);
});

test("a customer who asks for many reports does not keep operators from theirs", async () => {
  await using gateway = await startWatched({ clock: manualClock(noon) });
  const customer = await signIn(gateway, gateway.tenant.key);
  const asked = Array.from({ length: 70 }, async (_, day) => {
    const from = new Date(noon - day * 86_400_000).toISOString().slice(0, 10);
    return ask(gateway, `spend?from=${from}&to=2026-12-01&by=key`, { cookie: customer });
  });
  const operator = await signIn(gateway, gateway.key);
  const report = await ask(gateway, `spend?${november}&by=route`, { cookie: operator });
  assert.equal(report.status, 200);
  const statuses = (await Promise.all(asked)).map(({ status }) => status);
  assert.deepEqual(new Set(statuses), new Set([200, 429]));
  const { body, status } = await ask(gateway, `spend?${november}&by=tag`, { cookie: customer });
  assert.deepEqual([status, body.error], [429, "a workspace can request 60 reports a minute"]);
});

test("a workspace has its plan use, its limit and the forecast of its month; CSV has one line per group", async () => {
  await using gateway = await startWatched({ clock: manualClock(noon) });
  const cookie = await signIn(gateway, gateway.tenant.key);
  await call(gateway, gateway.tenant.key);
  await call(gateway, gateway.key);
  const { body } = await ask(gateway, `spend?${november}&by=key`, { cookie });
  assert.equal(body.workspace, gateway.tenant.workspaceId);
  assert.equal(body.total.used_cu_milli, 500);
  assert.deepEqual(body.plan, {
    start: "2026-11-01T00:00:00.000Z",
    end: "2026-12-01T00:00:00.000Z",
    used_cu_milli: 500,
    // 500 milli-CU in half a day, for the 9.5 days that are left.
    forecast_cu_milli: 500 + 500 * 19,
    forecast_value_usd: "0.00001",
    plan: "free",
    plan_includes_cu_milli: 1_000_000,
    included_cu_milli: 500,
    purchased_cu_milli: 0,
    purchased_left_cu_milli: 0,
    overage_cu_milli: 0,
    limit_cu_milli: 1_000_000,
    forecast_overage_usd: "0",
  });

  const operator = await signIn(gateway, gateway.key);
  const response = await fetch(
    `${gateway.adminUrl}/dashboard/api/spend.csv?${november}&by=workspace`,
    { headers: { cookie: operator, "x-sluice-dashboard": "1" } },
  );
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/csv; charset=utf-8");
  assert.equal(
    response.headers.get("content-disposition"),
    'attachment; filename="spend-by-workspace-2026-11-01-2026-12-01.csv"',
  );
  const [head, ...lines] = (await response.text()).split("\r\n");
  assert.equal(
    head,
    "workspace,name,calls,used_cu_milli,included_cu_milli,purchased_cu_milli,overage_cu_milli,input_tokens,output_tokens,value_usd,overage_usd",
  );
  assert.equal(lines.length, 3);
  const figures = "[^,]+,1,500,500,0,0,0,0,0.0000005,0";
  const own = lines.find((line) => line.startsWith(gateway.workspaceId));
  assert.match(own ?? "", new RegExp(`^[^,]+,${figures}$`));
  assert.equal(lines.at(-1), "");
});

test("invalid questions are refused, and other workspaces are not shown", async () => {
  await using gateway = await startWatched({ clock: manualClock(noon) });
  const cookie = await signIn(gateway, gateway.tenant.key);
  for (const query of [
    "",
    "from=2026-11-01&to=2026-11-01&by=key",
    "from=2026-11-02&to=2026-11-01&by=key",
    "from=2020-01-01&to=2026-11-01&by=key",
    "from=2026-11-01T00:00:00Z&to=2026-11-02&by=key",
    `${november}&by=weather`,
    `${november}&by=key&more=1`,
  ]) {
    const { status, body } = await ask(gateway, `spend?${query}`, { cookie });
    assert.deepEqual([status, body.error_code], [400, "GATEWAY_INVALID_PARAMS"], query);
  }
  const other = `spend?${november}&by=key&workspace=${gateway.workspaceId}`;
  assert.equal((await ask(gateway, other, { cookie })).status, 404);
  const unknown = await ask(gateway, `spend.csv?${november}&by=key&workspace=ws_none`, { cookie });
  assert.equal(unknown.status, 404);
  assert.equal((await ask(gateway, `spend?${november}&by=key`)).status, 401);
});

test("the health over time has requests, errors by code and percentiles per route", async () => {
  const clock = manualClock(Date.UTC(2026, 10, 21, 12));
  await using gateway = await startWatched({ clock });
  const cookie = await signIn(gateway, gateway.key);
  await call(gateway, gateway.key);
  await call(gateway, undefined);
  await call(gateway, gateway.key, "/free");
  for (const range of ["1h", "24h", "7d", "30d"]) {
    const { status, body } = await ask(gateway, `history?range=${range}&by=route`, { cookie });
    assert.equal(status, 200);
    assert.deepEqual([body.total.requests, body.total.failed], [3, 0]);
    assert.deepEqual(body.total.codes, { GATEWAY_UNAUTHORIZED: 1 });
    assert.equal(body.series.requests.length, body.steps);
    assert.equal(body.series.requests.at(-1), 3);
    assert.equal(body.series.refused.at(-1), 1);
    assert.ok(body.series.p95_ms.at(-1) > 0);
    assert.equal(body.series.p95_ms[0], null);
    assert.deepEqual(
      body.names.map(({ name, requests }: { name: string; requests: number }) => [name, requests]),
      [
        ["/call", 2],
        ["/free", 1],
      ],
    );
    const one = await ask(gateway, `history?range=${range}&by=route&name=/free`, { cookie });
    assert.equal(one.body.total.requests, 1);
  }
});

test("invalid questions are refused, and workspaces do not see the deployment", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  for (const query of ["", "range=1y&by=all", "range=1h&by=weather", "range=1h&by=all&x=1"]) {
    assert.equal((await ask(gateway, `history?${query}`, { cookie })).status, 400, query);
  }
  const tenant = await signIn(gateway, gateway.tenant.key);
  const denied = await ask(gateway, "history?range=1h&by=all", { cookie: tenant });
  assert.equal(denied.status, 403);
});
