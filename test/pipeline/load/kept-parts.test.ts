/** Tests of the state machine of parts that services keep over their restarts: who holds them, and when they close. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Closer } from "../../../src/pipeline/load/closer.ts";
import { KeptParts } from "../../../src/pipeline/load/kept-parts.ts";
import type { Log } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { quietCloser } from "../harness.ts";

/** Closes `parts`, and moves the time forward until every limit of the stop has passed. Returns the logged parts. */
async function closeHanging(parts: KeptParts): Promise<string[]> {
  const clock = manualClock();
  const late: string[] = [];
  const error: Log["error"] = (fields) => void late.push(JSON.stringify(fields));
  const log: Log = { debug() {}, info() {}, warn() {}, error, child: () => log };
  let isClosed = false;
  const closed = parts.close(new Closer({ clock, log })).finally(() => (isClosed = true));
  while (!isClosed) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1_000);
  }
  await closed;
  return late;
}

test("a part is closed when its last holder releases it", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const service = { name: "store" };
  const first = parts.holder(service);
  const second = parts.holder(service);
  const keep = (holder: typeof first): object =>
    holder.keep(
      "database",
      () => ({}),
      () => void closed.push("database"),
    );
  assert.equal(keep(first), keep(second));
  await first.release();
  assert.deepEqual(closed, []);
  await second.release();
  assert.deepEqual(closed, ["database"]);
});

test("a stop closes parts that are still held, the last opened first, and each one once", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  for (const name of ["journal", "export"]) {
    holder.keep(
      name,
      () => name,
      (part) => void closed.push(part),
    );
  }
  await parts.close(quietCloser());
  await holder.release();
  assert.deepEqual(closed, ["export", "journal"]);
});

test("a stop waits for parts that are being closed", async () => {
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  const { promise, resolve } = Promise.withResolvers<void>();
  let isClosed = false;
  holder.keep(
    "journal",
    () => 0,
    async () => {
      await promise;
      isClosed = true;
    },
  );
  void holder.release();
  const stopped = parts.close(quietCloser());
  resolve();
  await stopped;
  assert.equal(isClosed, true);
});

test("a stop closes the parts that a release has not reached, because an earlier part does not end", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  holder.keep(
    "journal",
    () => "journal",
    (part) => void closed.push(part),
  );
  const stuck = Promise.withResolvers<void>();
  holder.keep(
    "export",
    () => 0,
    () => stuck.promise,
  );
  const released = holder.release();
  const late = await closeHanging(parts);
  assert.deepEqual(closed, ["journal"]);
  assert.deepEqual(late, ['{"part":"service store: export"}']);
  stuck.resolve();
  await released;
  assert.deepEqual(closed, ["journal"], "the release does not close it a second time");
});

test("a stop closes the parts after one that throws, and reports the error", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  for (const name of ["first", "second"]) {
    parts.holder({ name }).keep(
      "database",
      () => name,
      (part) => {
        closed.push(part);
        throw new Error(`${part} failed`);
      },
    );
  }
  await assert.rejects(parts.close(quietCloser()), /second failed; Error: first failed/);
  assert.deepEqual(closed, ["second", "first"]);
});
