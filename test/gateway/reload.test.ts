/** The reloads of a running gateway: which calls share a reload, and what happens if it cannot watch files. */
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import fs, { writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { startGateway } from "../../src/gateway/gateway.ts";
import { temporaryFolder } from "../store/folder.ts";

const pipeline = (more = ""): string => `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
${more}
routes:
  - { path: /x, to: discovery }
`;

async function start(t: TestContext, watch = false): Promise<TestGateway> {
  const gateway = await startTestGateway({ pipeline: pipeline(), watch });
  t.after(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

test("calls made while a reload runs share one further reload", async (t) => {
  const { reloader } = (await start(t)).gateway;
  const calls = Array.from({ length: 10 }, (_, n) => reloader.reload(`call ${n}`));
  assert.equal(new Set(calls).size, 2);
  assert.deepEqual(
    await Promise.all(calls),
    calls.map(() => []),
  );
  assert.equal(reloader.state.generation, 3);
  await reloader.reload("later");
  assert.equal(reloader.state.generation, 4);
});

test("a call made while a reload runs sees what was written before it", async (t) => {
  const gateway = await start(t);
  const { reloader } = gateway.gateway;
  const first = reloader.reload("first");
  await gateway.write(pipeline("nonsense: 1"));
  const second = reloader.reload("second");
  await first;
  assert.deepEqual(
    (await second).map(({ code }) => code),
    ["SLUICE_KEY_UNKNOWN"],
  );
  await gateway.write(pipeline());
  assert.deepEqual(await reloader.reload("third"), []);
});

test("a gateway that stops does not reload, and ends a reload that is running", async (t) => {
  const gateway = await start(t);
  const { reloader } = gateway.gateway;
  const underWay = reloader.reload("under way");
  const waiting = reloader.reload("waiting");
  await Promise.all([gateway.gateway.stop(), underWay, waiting]);
  for (const faults of [await underWay, await waiting, await reloader.reload("late")]) {
    assert.deepEqual(
      faults.map(({ code }) => code),
      ["SLUICE_STOPPING"],
    );
  }
  assert.equal(reloader.state.generation, 1);
});

test("a change that needs a restart is reported at the position of its section", async (t) => {
  const gateway = await start(t);
  const folder = join(gateway.folder, "elsewhere");
  await gateway.write(
    pipeline(`log: { level: error }\nmetering:\n  durability: async`).replace(
      'data: "${DATA_DIR}"',
      `data: "${folder}"`,
    ),
  );
  const faults = await gateway.gateway.reloader.reload("test");
  assert.deepEqual(
    faults.map(({ code, message, at }) => [code, /"(\w+)"/.exec(message)?.[1], at?.line, at?.col]),
    [
      ["SLUICE_RESTART_NEEDED", "store", 4, 1],
      ["SLUICE_RESTART_NEEDED", "log", 5, 1],
      ["SLUICE_RESTART_NEEDED", "metering", 6, 1],
    ],
  );
});

test("a section that was removed is reported at the top of the file", async (t) => {
  const folder = temporaryFolder(t);
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline("log: { level: fatal }"));
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: folder };
  const gateway = await startGateway({ configFile, env, watch: false, drainDelaySeconds: 0 });
  t.after(() => gateway.stop());
  writeFileSync(configFile, pipeline());
  const [fault, ...more] = await gateway.reloader.reload("test");
  assert.deepEqual(more, []);
  assert.deepEqual(
    [fault?.message, fault?.at?.line],
    ['changing "log" needs a restart of the gateway', 1],
  );
});

function watchWith(t: TestContext, watch: () => fs.FSWatcher): void {
  const mocked = t.mock.method(fs, "watch", watch);
  syncBuiltinESMExports();
  t.after(() => {
    mocked.mock.restore();
    syncBuiltinESMExports();
  });
}

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: no watch left`), { code });
}

test("if the system cannot watch more files, the log reports it and the gateway runs", async (t) => {
  watchWith(t, () => {
    throw systemError("ENOSPC");
  });
  const gateway = await start(t, true);
  assert.equal((await fetch(`${gateway.url}/x`)).status, 200);
  const warnings = gateway.lines.filter((line) => line.includes("cannot watch"));
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /ENOSPC/);
  assert.deepEqual(await gateway.gateway.reloader.reload("SIGHUP"), []);
});

test("a watch that fails later is logged, and closed with the gateway", async (t) => {
  let closed = 0;
  const watcher = Object.assign(new EventEmitter(), { close: () => void closed++ });
  // The reloader only listens for errors and closes the watch.
  watchWith(t, () => watcher as unknown as fs.FSWatcher);
  const gateway = await start(t, true);
  watcher.emit("error", systemError("EMFILE"));
  assert.equal(gateway.lines.filter((line) => line.includes("cannot watch")).length, 1);
  assert.equal((await fetch(`${gateway.url}/x`)).status, 200);
  await gateway.gateway.stop();
  assert.equal(closed, 1);
});
