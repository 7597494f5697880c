import assert from "node:assert/strict";
import { test } from "node:test";
import { KeptParts } from "../../../src/pipeline/load/kept-parts.ts";
import { quietCloser } from "../harness.ts";

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
