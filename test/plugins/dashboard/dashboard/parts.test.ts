/**
 * Parts of the dashboard: amounts of money, which exchanges the view Live keeps, stores and gateways that do not answer,
 * the comparison of two files, and the sums of the health over time.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { Clock } from "sluice-gateway/plugin";
import {
  overageSumUsd,
  overageUsd,
  valueUsd,
} from "../../../../plugins/dashboard/dashboard/money.ts";
import { Activity, keptExchanges } from "../../../../plugins/dashboard/dashboard/activity.ts";
import type { Postgres, Redis, Replicas, SettledExchange, Store } from "../../../../src/plugin.ts";
import { noon, settledExchange } from "./settled-exchange.ts";
import { storeStates } from "../../../../plugins/dashboard/dashboard/stores.ts";
import { noSql } from "../../../../src/store/sql/work.ts";
import { noSession } from "../../../../src/store/session.ts";
import { askAllGateways } from "../../../../plugins/dashboard/dashboard/other-gateways.ts";
import { keptLog, silentLog } from "../../../test-log.ts";
import { compare, maskSecrets } from "../../../../plugins/dashboard/dashboard/pipeline-file.ts";
import {
  addCounts,
  addDuration,
  type Counts,
  percentile,
} from "../../../../plugins/dashboard/dashboard/history/histogram.ts";
import { HistoryRecorder } from "../../../../plugins/dashboard/dashboard/history/recorder.ts";
import {
  createHistoryStore,
  type HistoryStore,
  type Span,
} from "../../../../plugins/dashboard/dashboard/history/store.ts";
import {
  addStored,
  type ExchangeSum,
  newSum,
} from "../../../../plugins/dashboard/dashboard/history/sums.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { openFolderSql } from "../../../store/open-sql.ts";

test("a milli-CU is worth a nano-USD", () => {
  assert.equal(valueUsd(0), "0");
  assert.equal(valueUsd(1), "0.000000001");
  assert.equal(valueUsd(1_000_000_000), "1");
  assert.equal(valueUsd(2_500_000_000), "2.5");
  assert.equal(valueUsd(Number.MAX_SAFE_INTEGER), "9007199.254740991");
});

test("overage costs the price of the plan, rounded half up to a nano-USD", () => {
  assert.equal(overageUsd(1_500, "0.001"), "0.0015");
  assert.equal(overageUsd(1, "0.0000005"), "0.000000001");
  assert.equal(overageUsd(1, "0.0000004"), "0");
  assert.equal(overageUsd(5, undefined), "0");
});

test("the overage of several plans is added up at their prices", () => {
  const parts = [
    { milliCu: 1_000, usdPerCu: "0.001" },
    { milliCu: 2_000, usdPerCu: "0.01" },
    { milliCu: 3_000, usdPerCu: undefined },
  ];
  assert.equal(overageSumUsd(parts), "0.021");
});

function ended(group: string, requestId: string, arrivedAt = noon): SettledExchange {
  const caller = { id: "key_1", group, burst: 2, isOperator: false };
  return settledExchange({ arrivedAt, facts: { requestId, caller } });
}

test("keeps single exchanges only while somebody is viewing, and only the newest 2,000", () => {
  const activity = new Activity();
  activity.settled(ended("ws", "before"));
  assert.deepEqual(activity.all.watch(noon), []);
  const records = Array.from({ length: keptExchanges + 20 }, (_, i) =>
    ended("ws", `r${i}`, noon + i),
  );
  for (const record of records) activity.settled(record);
  const seen = activity.all.watch(noon + 5_000);
  assert.equal(seen.length, keptExchanges);
  assert.deepEqual(
    seen.map(({ facts }) => facts.requestId),
    records
      .slice(20)
      .toReversed()
      .map(({ facts }) => facts.requestId),
  );
  activity.settled(ended("ws", "unseen", noon + 60_000));
  assert.deepEqual(activity.all.watch(noon + 61_000), []);
});

test("drops the oldest group when there are too many", () => {
  const activity = new Activity();
  for (let i = 0; i <= 4_096; i++) activity.settled(ended(`ws_${i}`, "r"));
  assert.equal(activity.group("ws_0").requests.total, 0);
  assert.equal(activity.group("ws_4096").requests.total, 1);
  assert.equal(activity.all.requests.total, 4_097);
});

const noStores: Store = {
  folder: "/no/such/folder",
  sql: () => noSql,
  session: noSession,
  postgres: undefined,
  redis: undefined,
  replicas: undefined,
};

test("without a data folder, only the shared stores are shown", async () => {
  assert.deepEqual(await storeStates(noStores), []);
  // The function reads only these members.
  const postgres = {
    place: "db:5432/sluice",
    query: () => Promise.reject(Object.assign(new Error("refused"), { code: "ECONNREFUSED" })),
  } as unknown as Postgres;
  const redis = { isUp: false } as Redis;
  assert.deepEqual(await storeStates({ ...noStores, postgres, redis }), [
    { kind: "PostgreSQL", name: "db:5432/sluice", up: false, problem: "ECONNREFUSED" },
    { kind: "Redis", name: "store.redis", up: false },
  ]);
});

const { log, lines: logged } = keptLog();

const own = (n: number): number => n + 1;
const ours = { name: "one", version: "1", isOwn: true, value: 2, heardMsAgo: 0 };

test("if the other gateways cannot be asked, the part of this one is still returned", async () => {
  const replicas: Replicas = {
    id: "1",
    mark() {},
    send() {},
    receive: () => ({ [Symbol.dispose]() {} }),
    ask: () => Promise.reject(new Error("away")),
  };
  using all = askAllGateways({ replicas, name: "one", version: "1", log }, "topic", own);
  const { parts, isComplete } = await all.ask(1);
  assert.deepEqual([parts, isComplete], [[ours], false]);
  assert.deepEqual(logged, ["warn dashboard: the other gateways cannot be asked"]);
});

test("equal texts have only common lines, whatever ends the lines", () => {
  assert.deepEqual(compare("a\nb\n", "a\r\nb"), [
    { text: "a", running: 1, disk: 1 },
    { text: "b", running: 2, disk: 2 },
  ]);
  assert.deepEqual(compare("", ""), []);
});

test("changed, added and removed lines have the numbers of their file", () => {
  assert.deepEqual(compare("a\nb\nc\nd\n", "a\nB\nc\nx\n"), [
    { text: "a", running: 1, disk: 1 },
    { text: "b", running: 2 },
    { text: "B", disk: 2 },
    { text: "c", running: 3, disk: 3 },
    { text: "d", running: 4 },
    { text: "x", disk: 4 },
  ]);
});

test("if too much differs, the whole file counts as changed", () => {
  const lines = (word: string): string =>
    Array.from({ length: 1_500 }, (_, n) => `${word} ${n}\n`).join("");
  const compared = compare(`same\n${lines("old")}`, `same\n${lines("new")}`);
  assert.equal(compared.length, 3_002);
  assert.deepEqual(compared[0], { text: "same", running: 1 });
  assert.deepEqual(compared.at(-1), { text: "new 1499", disk: 1_501 });
});

test("a secret that was changed is a changed line, and is not shown", () => {
  const compared = compare("secret: one\nport: 1\n", "secret: two\nport: 1\n");
  assert.deepEqual(compared, [
    { text: "secret: [redacted]", running: 1 },
    { text: "secret: [redacted]", disk: 1 },
    { text: "port: 1", running: 2, disk: 2 },
  ]);
});

const masked: readonly (readonly [string, string])[] = [
  ["secret: hidden", "secret: [redacted]"],
  ['secret: "hidden" # a note', "secret: [redacted] # a note"],
  ["{ apiKey: hidden, port: 1 }", "{ apiKey: [redacted], port: 1 }"],
  ["- api_key: 'hidden'", "- api_key: [redacted]"],
  [
    "webhookSecret: >-\n  hid\n  den\nport: 1",
    "webhookSecret: [redacted]\n  [redacted]\n  [redacted]\nport: 1",
  ],
  ["headers: { authorization: Bearer hidden }", "headers: { authorization: [redacted] }"],
  ['secret: "${GATEWAY_SECRET:-hidden}"', "secret: [redacted]"],
  ["url: https://user:hidden@node/path", "url: https://[redacted]@node/path"],
  ["note: gateway_prod_0123456789abcdef0123456789abcdef", "note: gateway_prod_[redacted]"],
  // The rest of the file has a syntax error.
  ["secret: hidden\nroutes: [ }\n", "secret: [redacted]\nroutes: [ }\n"],
];

test("secrets that are written into the file are hidden, also if the file has syntax errors", () => {
  for (const [text, shown] of masked) assert.equal(maskSecrets(text), shown);
});

test("references, numbers, booleans and other options are shown", () => {
  for (const text of [
    'secret: "${GATEWAY_SECRET}"',
    'secret: "${GATEWAY_SECRET:-}"',
    'authorization: "Bearer ${SEARCH_KEY}"',
    "maxToken: 100\ntoken: true\n",
    "url: http://127.0.0.1:8080",
    "# secret: of the deployment",
    "",
  ]) {
    assert.equal(maskSecrets(text), text);
  }
});

const minute = 60_000;

async function sumOf(
  store: HistoryStore,
  kind: string,
  name: string,
  span: Span = "minute",
): Promise<ExchangeSum> {
  const sum = newSum();
  for (const row of await store.read({ span, kind, from: 0, to: Date.UTC(2100, 0, 1) })) {
    if (row.name === name) addStored(sum, row.sum);
  }
  return sum;
}

test("percentiles of added histograms are within 10 % of the exact ones", () => {
  const durations = fc.array(fc.double({ min: 0.2, max: 100_000, noNaN: true }), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(durations, durations, (one, other) => {
      const counts: Counts = {};
      const more: Counts = {};
      for (const ms of one) addDuration(counts, ms);
      for (const ms of other) addDuration(more, ms);
      addCounts(counts, more);
      const all = [...one, ...other].toSorted((a, b) => a - b);
      for (const q of [0.5, 0.95, 0.99]) {
        const exact = all[Math.ceil(q * all.length) - 1] ?? 0;
        const found = percentile(counts, q) ?? 0;
        assert.ok(found > exact / 1.2 && found < exact * 1.2, `${found} for ${exact}`);
      }
    }),
  );
  assert.equal(percentile({}, 0.5), undefined);
});

test("after a clock that ran ahead was set back, exchanges count at their times, and none is lost", async (t) => {
  const time = manualClock(noon);
  let aheadMs = 3 * 60 * minute;
  const clock: Clock = {
    now: () => time.now() + aheadMs,
    monotonic: () => time.monotonic(),
    after: (ms, task) => time.after(ms, task),
    every: () => ({ [Symbol.dispose]() {} }),
  };
  const store = createHistoryStore(await openFolderSql(t, temporaryFolder(t)));
  const recorder = new HistoryRecorder({ store, clock, log: silentLog });
  const settle = (): void => recorder.settled(settledExchange({ arrivedAt: clock.now() }));
  const counted = async (from: number, to: number): Promise<number> => {
    const rows = await recorder.read({ span: "hour", kind: "all", from, to });
    return rows.reduce((sum, row) => sum + (JSON.parse(row.sum) as { n: number }).n, 0);
  };
  settle();
  await recorder.flush();
  aheadMs = 0;
  await recorder.flush();
  settle();
  const later = noon + 60 * minute;
  assert.equal(await counted(noon, later), 1);
  time.advance(minute);
  settle();
  assert.equal(await counted(noon, later), 2);
  assert.equal(await counted(noon, Date.UTC(2100, 0, 1)), 3);
  await recorder.close();
});

test("rows are pruned by age, and distinct names are bounded", async (t) => {
  const time = manualClock(noon);
  // A month has too many minutes to run the timer in each.
  const clock: Clock = {
    now: () => time.now(),
    monotonic: () => time.monotonic(),
    after: (ms, task) => time.after(ms, task),
    every: () => ({ [Symbol.dispose]() {} }),
  };
  const store = createHistoryStore(await openFolderSql(t, temporaryFolder(t)));
  const recorder = new HistoryRecorder({ store, clock, log: silentLog });
  for (let route = 0; route < 300; route++) {
    recorder.settled(settledExchange({ route: { path: `/${route}` } }));
  }
  await recorder.flush();
  const count = async (span: Span): Promise<number> =>
    (await store.read({ span, kind: "route", from: 0, to: Date.UTC(2100, 0, 1) })).length;
  const names = await count("minute");
  assert.ok(names <= 101);
  assert.equal((await sumOf(store, "route", "other")).n, 300 - (names - 1));
  time.advance(26 * 60 * minute);
  recorder.settled(settledExchange({ arrivedAt: clock.now() }));
  await recorder.flush();
  assert.equal(await count("minute"), 1);
  time.advance(32 * 24 * 60 * minute);
  recorder.settled(settledExchange({ arrivedAt: clock.now() }));
  await recorder.flush();
  assert.equal(await count("hour"), 1);
  await recorder.close();
});
