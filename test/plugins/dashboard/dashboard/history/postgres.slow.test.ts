/** Tests of the state machine of the health over time while PostgreSQL does not answer. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { HistoryRecorder } from "../../../../../plugins/dashboard/dashboard/history/recorder.ts";
import {
  createHistoryStore,
  type HistoryStore,
} from "../../../../../plugins/dashboard/dashboard/history/store.ts";
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { openPostgres } from "../../../../../src/store/postgres/postgres.ts";
import { postgresSql } from "../../../../../src/store/sql/postgres-sql.ts";
import { createSeal } from "../../../../../src/store/seal.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { startFaultProxy } from "../../../../store/fault-proxy.ts";
import { createDatabase } from "../../../../store/servers.ts";
import { until, upgrade } from "../../../billing/shipping/fixture.ts";
import { noon, settledExchange } from "./settled-exchange.ts";
import { keptLog } from "../../../../test-log.ts";

const secret = "a secret of these gateways";
const all = { span: "minute", kind: "route", from: 0, to: noon + 1 } as const;

async function database(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

function openStore(t: TestContext, url: string): HistoryStore {
  const opened = openPostgres({
    url,
    replica: "one",
    metrics: createMetrics(),
    statementMs: 2_000,
  });
  t.after(() => opened.close());
  return createHistoryStore(postgresSql(opened, "history"));
}

test("while PostgreSQL does not answer, the sums wait, and a message is logged once", async (t) => {
  const url = await database(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  const clock = manualClock(noon);
  const { log, lines } = keptLog();
  const recorder = new HistoryRecorder({ store: openStore(t, through.href), clock, log });
  t.after(() => recorder.close());
  recorder.settled(settledExchange());
  proxy.refuses = true;
  proxy.reset();
  await recorder.flush();
  await recorder.flush();
  assert.deepEqual(lines, ["error health over time: cannot store the last minutes"]);
  await assert.rejects(recorder.read(all));
  recorder.settled(settledExchange());
  proxy.refuses = false;
  const reader = openStore(t, url);
  await until(async () => {
    await recorder.flush();
    return (await reader.read(all)).length > 0;
  });
  const [stored] = await reader.read(all);
  assert.equal(JSON.parse(stored?.sum ?? "{}").n, 2);
});
