/** The health over time, as the dashboard reads it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { ask, call, signIn, startWatched } from "../gateway.ts";

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
