/** The lines of the access log: their content, which of them are written, and the file. */
import assert from "node:assert/strict";
import { once } from "node:events";
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
import { testStep, type TestedHandler, type TestRequest } from "sluice-gateway/testing";
import accessLog from "../../../plugins/edge/access-log/index.ts";
import { openLines } from "../../../plugins/edge/access-log/line-writer.ts";
import { startTestGateway } from "../../../plugins/contracts/testing.ts";
import type { Exchange, Log, Outcome, Reply, SurfaceHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { silentLog } from "../../test-log.ts";
import { fakeExchange, fakeHost } from "../fakes.ts";
import { withDefaults } from "../with-defaults.ts";

type Options = Partial<Parameters<typeof accessLog.start>[0]>;
type Line = Readonly<Record<string, unknown>>;

function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-access-log-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const wanted = (x: Exchange): Reply => ({ status: Number(x.request.headers["x-status"] ?? 200) });

async function setUp(
  t: TestContext,
  options: Options = {},
  answer: SurfaceHooks["answer"] = wanted,
): Promise<TestedHandler<Options>> {
  const step = await testStep(accessLog, { options, surface: { answer } });
  t.after(() => step[Symbol.asyncDispose]());
  return step;
}

/** Sends these requests. Returns their lines, which are in the gateway's log, because no file is configured. */
async function linesFor(
  t: TestContext,
  requests: readonly TestRequest[],
  ...rest: [Options?, SurfaceHooks["answer"]?]
): Promise<readonly Line[]> {
  const step = await setUp(t, ...rest);
  for (const request of requests) await step.send(request);
  return step.lines.map(parsed);
}

function parsed(line: string): Line {
  assert.ok(!line.includes("\n"));
  return JSON.parse(line) as Line;
}

function read(file: string): readonly Line[] {
  const text = readFileSync(file, "utf8");
  assert.ok(text === "" || text.endsWith("\n"), "the last line is whole");
  return text.split("\n").slice(0, -1).map(parsed);
}

const withStatus = (status: number): TestRequest => ({ headers: { "x-status": String(status) } });

test("a line contains the caller, the request, the outcome, the duration and the cost", async () => {
  const clock = manualClock();
  const arrivedAt = clock.now();
  await using step = await testStep(accessLog, {
    clock,
    surface(x) {
      x.note("requestId", "req-1");
      x.note("caller", { id: "key_9", group: "ws_1", burst: 4, isOperator: false });
      x.note("costMilliCu", 250);
      clock.advance(12.3456);
      return { status: 200, body: "x".repeat(321) };
    },
  });
  await step.send({ method: "POST", path: "/v1/ledger/rpc" });
  assert.deepEqual(step.lines.map(parsed), [
    {
      level: 30,
      time: arrivedAt,
      requestId: "req-1",
      method: "POST",
      route: "/*",
      path: "/v1/ledger/rpc",
      status: 200,
      outcome: "complete",
      durationMs: 12.346,
      bodyBytes: 321,
      keyId: "key_9",
      workspaceId: "ws_1",
      costMilli: 250,
      address: "127.0.0.1",
    },
  ]);
});

const severities: readonly [number, Outcome, number][] = [
  [200, "complete", 30],
  [401, "complete", 40],
  [429, "complete", 40],
  [500, "complete", 50],
  [503, "upstreamFailed", 50],
  [200, "upstreamFailed", 50],
  [200, "timedOut", 50],
  [0, "clientLeft", 40],
];
test("the status and the outcome decide the level", async (t) => {
  const step = await setUp(t, {}, async (x) => {
    const [status, outcome] = severities[Number(x.request.path.slice(1))] ?? [0];
    if (outcome === "clientLeft") await once(x.signal, "abort");
    return { status, ...(outcome !== "complete" && { outcome: outcome as "timedOut" }) };
  });
  for (const [row, [, outcome]] of severities.entries()) {
    const request = step.begin({ path: `/${row}` });
    if (outcome === "clientLeft") request.leave();
    await request.answer;
  }
  assert.deepEqual(
    step.lines.map(parsed).map((line) => [line["status"], line["outcome"], line["level"]]),
    severities,
  );
});

test("level omits less severe lines", async (t) => {
  const step = await setUp(t);
  let written = 0;
  for (const [level, expected] of [
    ["debug", [200, 404, 500]],
    ["info", [200, 404, 500]],
    ["warn", [404, 500]],
    ["error", [500]],
    ["silent", []],
  ] as const) {
    await step.reload({ level });
    for (const status of [200, 404, 500]) await step.send(withStatus(status));
    const lines = step.lines.slice(written).map(parsed);
    written = step.lines.length;
    assert.deepEqual(
      lines.map((line) => line["status"]),
      expected,
    );
  }
});

const pipeline = (file: string): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes: [{ path: /, methods: [GET, POST], run: [{ access-log: { file: "${file}" } }, { validate: { body: {} } }], to: discovery }]
`;

test("the default level is that of the gateway", async (t) => {
  for (const [level, expected] of [
    ["warn", [400]],
    ["info", [200, 400]],
    ["nonsense", [200, 400]],
  ] as const) {
    const file = join(temporaryFolder(t), "access.log");
    const log: Log = { ...silentLog, level, child: () => log };
    {
      await using gateway = await startTestGateway({ log, pipeline: pipeline(file) });
      const metrics = await fetch(`${gateway.adminUrl}/metrics`);
      assert.match(await metrics.text(), /^sluice_access_log_lost_total 0$/m);
      for (const body of ["{}", "{"]) await fetch(gateway.url, { method: "POST", body });
    }
    assert.deepEqual(
      read(file).map((line) => line["status"]),
      expected,
    );
  }
});

test("sampling omits successes evenly, and never refusals", async (t) => {
  const requests = Array.from({ length: 100 }, (_, i) => [{ path: `/${i}` }, withStatus(404)]);
  const written = await linesFor(t, requests.flat(), { sampling: 0.25 });
  const successes = written.filter((line) => line["status"] === 200);
  assert.equal(written.length - successes.length, 100);
  assert.deepEqual(
    successes.map((line) => line["path"]),
    Array.from({ length: 25 }, (_, i) => `/${i * 4}`),
  );
});

test("neither headers nor the query nor a key in the path are logged", async (t) => {
  const key = `gateway_dev_${"0123456789abcdef".repeat(2)}`;
  const request = {
    path: `/x/"}\u2028${key}?api_key=hidden`,
    headers: { authorization: `Bearer ${key}`, cookie: "hidden" },
  };
  const [line] = await linesFor(t, [request], {}, (x) => {
    x.note("requestId", `mine-${key}`);
    return { status: 200 };
  });
  assert.equal(line?.["path"], '/x/"}\u2028gateway_dev_[redacted]');
  assert.equal(line["requestId"], "mine-gateway_dev_[redacted]");
  assert.doesNotMatch(JSON.stringify(line), /hidden|0123456789abcdef/);
});

test("a renamed file is created again, and every line is in exactly one of the two", async (t) => {
  const file = join(temporaryFolder(t), "access.log");
  let sent = 0;
  {
    await using step = await testStep(accessLog, { options: { file } });
    const burst = async (): Promise<void> => {
      for (let i = 0; i < 100; i++) await step.send({ path: `/${sent++}` });
      step.clock.advance(250);
    };
    await burst();
    // Meanwhile the last line may be incomplete.
    const written = (): number => readFileSync(file, "utf8").split("\n").length - 1;
    while (written() < sent) await new Promise(setImmediate);
    renameSync(file, `${file}.1`);
    while (!existsSync(file)) {
      await burst();
      await new Promise(setImmediate);
    }
    assert.equal(statSync(file).mode & 0o007, 0);
    await burst();
  }
  assert.deepEqual(
    [...read(`${file}.1`), ...read(file)].map((line) => line["path"]),
    Array.from({ length: sent }, (_, i) => `/${i}`),
  );
});

test("the line of a client that has left still contains its address", async (t) => {
  const file = join(temporaryFolder(t), "access.log");
  const hooks = await accessLog.start(withDefaults(accessLog, { file }), fakeHost());
  // A fake, because other parts of a gateway may have read the address earlier.
  const x = fakeExchange();
  let connected = true;
  const remembered: { address?: string } = {};
  Object.defineProperty(x.request, "address", {
    get: () => (remembered.address ??= connected ? "192.0.2.9" : ""),
  });
  await hooks.requestHeaders?.(x);
  connected = false;
  hooks.settled?.(x, "clientLeft");
  await hooks.stop?.();
  assert.equal(read(file)[0]?.["address"], "192.0.2.9");
});

test("after each stop, the file contains all lines, complete and in order, and is not readable by everybody", async (t) => {
  const file = join(temporaryFolder(t), "access.log");
  for (const start of [0, 1_000]) {
    await using step = await testStep(accessLog, { options: { file } });
    for (let i = start; i < start + 1_000; i++) await step.send({ path: `/${i}` });
  }
  const written = read(file);
  assert.equal(written.length, 2_000);
  assert.ok(written.every((line, i) => line["path"] === `/${i}`));
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
