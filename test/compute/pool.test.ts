/** The pool of threads, and how a thread imports the modules of jobs. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { openComputePool, type ComputeOptions, type ComputePool } from "../../src/compute/pool.ts";
import { messageOf } from "../../src/base/message-of.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import type { TestJob } from "./jobs.ts";
import run from "../../src/compute/run-job.ts";
import { temporaryFolder } from "../store/folder.ts";

const module = new URL("./jobs.ts", import.meta.url).href;

interface TestPool extends AsyncDisposable {
  readonly pool: ComputePool;
  readonly clock: ManualClock;
  /** The reasons of jobs that failed, from the log. */
  readonly failures: readonly string[];
  run(job: TestJob, signal?: AbortSignal): ReturnType<ComputePool["run"]>;
}

function testPool(options: Partial<ComputeOptions> = {}): TestPool {
  const clock = manualClock();
  const failures: string[] = [];
  const pool = openComputePool({
    clock,
    log: { error: (fields) => void failures.push("err" in fields ? messageOf(fields.err) : "") },
    metrics: createMetrics(),
    threads: 1,
    queue: 2,
    ...options,
  });
  return {
    pool,
    clock,
    failures,
    run: (input, signal) => {
      const buffer = input.bytes?.buffer;
      const transfer = buffer instanceof ArrayBuffer ? [buffer] : [];
      return pool.run({ module, input, transfer, signal });
    },
    [Symbol.asyncDispose]: () => pool.close(),
  };
}

const newGate = (): SharedArrayBuffer => new SharedArrayBuffer(8);

/** Resolves when a thread has begun the job that holds this gate. */
async function begun(gate: SharedArrayBuffer): Promise<void> {
  const wait = Atomics.waitAsync(new Int32Array(gate), 0, 0);
  if (wait.async) await wait.value;
}

function openGate(gate: SharedArrayBuffer): void {
  Atomics.store(new Int32Array(gate), 1, 1);
  Atomics.notify(new Int32Array(gate), 1);
}

test("input bytes are transferred, and result bytes arrive", async () => {
  await using threads = testPool();
  const bytes = new Uint8Array([1, 2, 3]);
  const done = await threads.run({ kind: "double", bytes });
  assert(done.ok);
  assert.deepEqual([...(done.bytes ?? [])], [2, 4, 6]);
  assert.equal(bytes.byteLength, 0);
});

test("a job that throws or returns no bytes, or whose thread dies, does not affect other jobs", async () => {
  await using threads = testPool();
  for (const kind of ["throw", "wrong", "die"] as const) {
    assert.deepEqual(await threads.run({ kind }), { ok: false, reason: "crashed" });
    const next = await threads.run({ kind: "double", bytes: new Uint8Array([4]) });
    assert(next.ok);
    assert.deepEqual([...(next.bytes ?? [])], [8]);
  }
  const [thrown, wrong, died] = threads.failures;
  assert.equal(thrown, "a bug");
  assert.equal(wrong, "the job returned neither bytes nor undefined");
  assert.match(died ?? "", /exited with code: 7/);
});

test("a module that is missing and an input that cannot be cloned fail their jobs, and the log has the reason", async () => {
  await using threads = testPool();
  const crashed = { ok: false, reason: "crashed" };
  for (const job of [
    { module: `${module}.none`, input: {} },
    { module, input: { newGate } },
  ]) {
    assert.deepEqual(await threads.pool.run({ ...job, transfer: [] }), crashed);
  }
  assert.match(threads.failures[0] ?? "", /Cannot find module .*none/);
  assert.match(threads.failures[1] ?? "", /could not be cloned/);
});

test("a job that hangs ends after its time limit, and the next job gets a thread", async () => {
  await using threads = testPool({ timeoutMs: 5000 });
  const gate = newGate();
  const hung = threads.run({ kind: "hang", gate });
  await begun(gate);
  threads.clock.advance(4999);
  threads.clock.advance(1);
  assert.deepEqual(await hung, { ok: false, reason: "timeout" });
  assert((await threads.run({ kind: "double", bytes: new Uint8Array([1]) })).ok);
});

test("aborting the signal ends a running or waiting job", async () => {
  await using threads = testPool();
  const gate = newGate();
  const running = new AbortController();
  const waiting = new AbortController();
  const first = threads.run({ kind: "hang", gate }, running.signal);
  await begun(gate);
  const second = threads.run({ kind: "none" }, waiting.signal);
  waiting.abort();
  assert.deepEqual(await second, { ok: false, reason: "aborted" });
  running.abort();
  assert.deepEqual(await first, { ok: false, reason: "aborted" });
  assert.deepEqual(await threads.run({ kind: "none" }, AbortSignal.abort()), {
    ok: false,
    reason: "aborted",
  });
});

test("jobs above the length of the queue are refused at once, and the others run in turn", async () => {
  await using threads = testPool({ queue: 2 });
  const gate = newGate();
  const held = threads.run({ kind: "hold", gate });
  await begun(gate);
  const queued = [threads.run({ kind: "none" }), threads.run({ kind: "none" })];
  assert.deepEqual(await threads.run({ kind: "none" }), { ok: false, reason: "busy" });
  openGate(gate);
  assert((await held).ok);
  for (const job of queued) assert((await job).ok);
  assert((await threads.run({ kind: "none" })).ok);
});

test("closing ends running and waiting jobs, and no job runs afterwards", async () => {
  const threads = testPool();
  const gate = newGate();
  const running = threads.run({ kind: "hang", gate });
  await begun(gate);
  const waiting = threads.run({ kind: "none" });
  await threads.pool.close();
  assert.deepEqual(await running, { ok: false, reason: "aborted" });
  assert.deepEqual(await waiting, { ok: false, reason: "aborted" });
  assert.deepEqual(await threads.run({ kind: "none" }), { ok: false, reason: "aborted" });
});

const job = `import { part } from "./part.mjs"; export default ({ text }) => text + part;`;

test("a module and what it imports are loaded once per version, a failed import is repeated", async (t) => {
  const folder = temporaryFolder(t);
  const url = pathToFileURL(join(folder, "job.mjs")).href;
  const result = (query = ""): Promise<unknown> =>
    run({ module: url + query, input: { text: "a" } });
  await assert.rejects(result(), /Cannot find module/);
  writeFileSync(join(folder, "job.mjs"), job);
  writeFileSync(join(folder, "part.mjs"), `export const part = "old";`);
  assert.equal(await result(), "aold");
  writeFileSync(join(folder, "part.mjs"), `export const part = "new";`);
  assert.deepEqual([await result(), await result("?v=1")], ["aold", "anew"]);
});
