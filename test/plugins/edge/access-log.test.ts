import assert from "node:assert/strict";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import accessLog from "../../../plugins/edge/access-log/index.ts";
import { openLines } from "../../../plugins/edge/access-log/line-writer.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import type { Outcome, StepHooks } from "../../../src/plugin.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";
import { fakeExchange, fakeHost, type FakeRequest } from "../fakes.ts";
import { withDefaults } from "../with-defaults.ts";

type Options = Partial<Parameters<typeof accessLog.start>[0]>;

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-access-log-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface Setup {
  readonly clock: ManualClock;
  readonly hooks: StepHooks;
  readonly file: string;
  readonly settle: (request: FakeRequest, outcome?: Outcome) => void;
  /** Stops the plugin and returns the lines in the file. */
  readonly lines: () => Promise<Record<string, unknown>[]>;
}

async function setUp(t: TestContext, options: Options = {}): Promise<Setup> {
  const folder = temporaryFolder(t);
  const clock = manualClock();
  const hooks = await accessLog.start(
    withDefaults(accessLog, { file: "access.log", ...options }),
    fakeHost({ folder, clock }),
  );
  const file = join(folder, "access.log");
  return {
    clock,
    hooks,
    file,
    settle: (request, outcome = "complete") => hooks.settled?.(fakeExchange(request), outcome),
    async lines() {
      await hooks.stop?.();
      return read(file);
    },
  };
}

function read(file: string): Record<string, unknown>[] {
  const text = readFileSync(file, "utf8");
  assert.ok(text === "" || text.endsWith("\n"), "the last line is whole");
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test("a line contains the caller, the request, the outcome, the duration and the cost", async (t) => {
  const { clock, settle, lines } = await setUp(t);
  const arrivedMonotonic = clock.monotonic();
  const arrivedAt = clock.now();
  clock.advance(12.3456);
  settle({
    method: "POST",
    path: "/v1/ledger/rpc",
    address: "192.0.2.7",
    arrivedAt,
    arrivedMonotonic,
    sent: { status: 200, bodyBytes: 321 },
    facts: {
      requestId: "req-1",
      caller: { id: "key_9", group: "ws_1", burst: 4, isOperator: false },
      costMilliCu: 250,
    },
  });
  assert.deepEqual(await lines(), [
    {
      level: 30,
      time: arrivedAt,
      requestId: "req-1",
      method: "POST",
      route: "/{any}",
      path: "/v1/ledger/rpc",
      status: 200,
      outcome: "complete",
      durationMs: 12.346,
      bodyBytes: 321,
      keyId: "key_9",
      workspaceId: "ws_1",
      costMilli: 250,
      address: "192.0.2.7",
    },
  ]);
});

const severities: readonly [number, Outcome, number][] = [
  [200, "complete", 30],
  [204, "replied", 30],
  [401, "replied", 40],
  [429, "replied", 40],
  [0, "clientLeft", 40],
  [200, "clientLeft", 40],
  [500, "complete", 50],
  [503, "upstreamFailed", 50],
  [200, "upstreamFailed", 50],
  [200, "timedOut", 50],
];
test("the status and the outcome decide the level", async (t) => {
  const { settle, lines } = await setUp(t);
  for (const [status, outcome] of severities) settle({ sent: { status } }, outcome);
  const written = (await lines()).map((line) => [line["status"], line["outcome"], line["level"]]);
  assert.deepEqual(written, severities);
});

test("level omits less severe lines", async (t) => {
  for (const [level, expected] of [
    ["debug", [200, 404, 500]],
    ["info", [200, 404, 500]],
    ["warn", [404, 500]],
    ["error", [500]],
    ["silent", []],
  ] as const) {
    const { settle, lines } = await setUp(t, { level });
    for (const status of [200, 404, 500]) settle({ sent: { status } });
    const written = (await lines()).map((line) => line["status"]);
    assert.deepEqual(written, expected);
  }
});

test("the default level is that of the gateway", async (t) => {
  for (const [level, paths] of [
    ["warn", ["/bad"]],
    ["info", ["/good", "/bad"]],
    ["nonsense", ["/good", "/bad"]],
  ] as const) {
    const folder = temporaryFolder(t);
    const log = { ...fakeHost().log, level };
    const hooks = await accessLog.start(
      withDefaults(accessLog, { file: "a.log" }),
      fakeHost({ folder, log }),
    );
    hooks.settled?.(fakeExchange({ path: "/good" }), "complete");
    hooks.settled?.(fakeExchange({ path: "/bad", sent: { status: 400 } }), "replied");
    await hooks.stop?.();
    assert.deepEqual(
      read(join(folder, "a.log")).map((line) => line["path"]),
      paths,
    );
  }
});

test("sampling omits successes evenly, and never refusals", async (t) => {
  const { settle, lines } = await setUp(t, { sampling: 0.25 });
  for (let i = 0; i < 100; i++) {
    settle({ path: `/${i}`, sent: { status: 200 } });
    settle({ sent: { status: 404 } });
  }
  const written = await lines();
  const successes = written.filter((line) => line["status"] === 200);
  assert.equal(written.length - successes.length, 100);
  assert.deepEqual(
    successes.map((line) => line["path"]),
    Array.from({ length: 25 }, (_, i) => `/${i * 4}`),
  );
});

test("neither headers nor the query nor a key in the path are logged", async (t) => {
  const key = `gateway_dev_${"0123456789abcdef".repeat(2)}`;
  const { settle, lines, file } = await setUp(t);
  settle({
    path: `/x/${key}`,
    target: `/x/${key}?api_key=hidden`,
    query: "api_key=hidden",
    headers: { authorization: `Bearer ${key}`, cookie: "hidden" },
    rawHeaders: ["Authorization", `Bearer ${key}`],
    facts: { requestId: `mine-${key}` },
  });
  const [line] = await lines();
  assert.equal(line?.["path"], "/x/gateway_dev_[redacted]");
  assert.equal(line?.["requestId"], "mine-gateway_dev_[redacted]");
  assert.doesNotMatch(readFileSync(file, "utf8"), /hidden|0123456789abcdef/);
});

test("text of a client cannot break a line or forge another one", async (t) => {
  const { settle, lines } = await setUp(t);
  const path = '/"}\n{"level":30,"status":200}\u2028';
  settle({ path, method: "G\rT" });
  const written = await lines();
  assert.equal(written.length, 1);
  assert.equal(written[0]?.["path"], path);
});

test("after the stop, the file contains all of ten thousand lines, complete and in order", async (t) => {
  const { settle, lines } = await setUp(t);
  for (let i = 0; i < 10_000; i++) settle({ path: `/${i}` });
  const written = await lines();
  assert.equal(written.length, 10_000);
  assert.ok(written.every((line, i) => line["path"] === `/${i}`));
});

test("a renamed file is created again, and every line is in exactly one of the two", async (t) => {
  const { settle, clock, file, hooks } = await setUp(t);
  let sent = 0;
  const burst = (): void => {
    for (let i = 0; i < 500; i++) settle({ path: `/${sent++}` });
    clock.advance(250);
  };
  burst();
  // Meanwhile the last line may be incomplete.
  const written = (): number => readFileSync(file, "utf8").split("\n").length - 1;
  while (written() < sent) await new Promise(setImmediate);
  renameSync(file, `${file}.1`);
  while (!existsSync(file)) {
    burst();
    await new Promise(setImmediate);
  }
  assert.equal(statSync(file).mode & 0o007, 0);
  burst();
  await hooks.stop?.();
  const paths = [...read(`${file}.1`), ...read(file)].map((line) => line["path"]);
  assert.deepEqual(
    paths,
    Array.from({ length: sent }, (_, i) => `/${i}`),
  );
});

test("the line of a client that has left still contains its address", async (t) => {
  const { hooks, lines } = await setUp(t);
  let connected = true;
  const x = fakeExchange({ path: "/left" });
  const remembered: { address?: string } = {};
  Object.defineProperty(x.request, "address", {
    get: () => (remembered.address ??= connected ? "192.0.2.9" : ""),
  });
  await hooks.requestHeaders?.(x);
  connected = false;
  hooks.settled?.(x, "clientLeft");
  assert.equal((await lines())[0]?.["address"], "192.0.2.9");
});

test("an existing file is appended to; a new one is not readable by everybody", async (t) => {
  const folder = temporaryFolder(t);
  for (const path of ["/1", "/2"]) {
    const hooks = await accessLog.start(
      withDefaults(accessLog, { file: "a.log" }),
      fakeHost({ folder }),
    );
    hooks.settled?.(fakeExchange({ path }), "complete");
    await hooks.stop?.();
  }
  const file = join(folder, "a.log");
  assert.deepEqual(
    read(file).map((line) => line["path"]),
    ["/1", "/2"],
  );
  assert.equal(statSync(file).mode & 0o007, 0);
});

test("a disk that refuses writes is reported once, throws nothing and does not delay a stop", async () => {
  const clock = manualClock();
  const failures: string[] = [];
  // Every write to this device fails with ENOSPC.
  const lines = openLines("/dev/full", clock, {
    failed: (error) => failures.push(String((error as NodeJS.ErrnoException).code)),
    dropped() {},
  });
  for (let round = 0; round < 3; round++) {
    lines.write("x".repeat(100));
    clock.advance(250);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  }
  await lines.close();
  assert.deepEqual(failures, ["ENOSPC"]);
  lines.write("late");
  clock.advance(250);
});

test("waiting lines are limited when a disk refuses writes, and the rest is counted as lost", async () => {
  const clock = manualClock();
  let dropped = 0;
  const lines = openLines("/dev/full", clock, {
    failed() {},
    dropped: (count) => (dropped += count),
  });
  const line = "x".repeat(1023);
  for (let i = 0; i < 17 * 1024; i++) lines.write(line);
  await lines.close();
  // 16 MiB wait, so nothing of the seventeenth can.
  assert.ok(dropped >= 1000 && dropped <= 1100, `dropped ${dropped}`);
});

test("lost lines are in the metrics from the start", async (t) => {
  const metrics = createMetrics();
  const host = fakeHost({ folder: temporaryFolder(t), metrics });
  const hooks = await accessLog.start(withDefaults(accessLog, { file: "a.log" }), host);
  assert.match(await metrics.render(), /^sluice_access_log_lost_total 0$/m);
  await hooks.stop?.();
});

test("check reports a folder that is missing, cannot be written, or has the path of the file", (t) => {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "sub"));
  mkdirSync(join(folder, "locked"));
  chmodSync(join(folder, "locked"), 0o500);
  const faults = (file: string) =>
    accessLog.check?.(withDefaults(accessLog, { file }), fakeHost({ folder })) ?? [];
  assert.deepEqual(faults("access.log"), []);
  assert.deepEqual(faults("sub/access.log"), []);
  assert.equal(faults("none/access.log")[0]?.pointer, "/file");
  assert.match(faults("none/access.log")[0]?.message ?? "", /does not exist or cannot be written/);
  assert.match(faults("sub")[0]?.message ?? "", /is a folder/);
  // Root may write everywhere.
  if (process.getuid?.() !== 0) assert.equal(faults("locked/access.log").length, 1);
  assert.deepEqual(accessLog.check?.(withDefaults(accessLog, {}), fakeHost({ folder })), []);
});
