import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import writeReceipts from "../../../../plugins/confidential/confidential-relay/receipts-job.ts";
import {
  openReceipts,
  type Receipts,
} from "../../../../plugins/confidential/confidential-relay/receipts.ts";
import type { ComputeThreads, Host } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { systemClock } from "../../../../src/clock.ts";
import { receiptOf } from "../../../contract/receipts.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { fakeHost } from "../../fakes.ts";

const day = 86_400_000;

/** A host whose threads refuse every job, as they do while their queues are full. */
function busyHost(folder: string, clock = systemClock): Host {
  const busy: ComputeThreads = { run: () => Promise.resolve({ ok: false, reason: "busy" }) };
  return fakeHost({
    store: { folder, postgres: undefined, redis: undefined, replicas: undefined },
    clock,
    compute: { ...busy, background: busy },
  });
}

function open(t: TestContext, folder: string, clock = systemClock): Receipts {
  const receipts = openReceipts(busyHost(folder, clock));
  t.after(() => receipts.close());
  return receipts;
}

test("a receipt is stored while usage reports fill the queue of the background thread", async (t) => {
  const receipts = open(t, temporaryFolder(t));
  assert.equal(await receipts.keep(receiptOf(1)), true);
  assert.equal(receipts.find("A".repeat(22), 1)?.rid, 1);
});

test("receipts that are being written when the store closes are on disk", async (t) => {
  const folder = temporaryFolder(t);
  const closing = openReceipts(busyHost(folder));
  const kept = [1, 2].map((rid) => closing.keep(receiptOf(rid)));
  await closing.close();
  assert.deepEqual(await Promise.all(kept), [true, true]);
  assert.equal(open(t, folder).find("A".repeat(22), 2)?.rid, 2);
});

test("stored receipts are found after the data folder is opened again", async (t) => {
  const folder = temporaryFolder(t);
  const before = open(t, folder);
  const kept = await Promise.all([1, 2, 3].map((rid) => before.keep(receiptOf(rid))));
  assert.deepEqual(kept, [true, true, true]);
  const after = open(t, folder);
  // JSON omits undefined members.
  const { unverifiedReason: _, ...stored } = receiptOf(2);
  assert.deepEqual(after.find("A".repeat(22), 2), stored);
  assert.equal(after.find("A".repeat(22), 4), undefined);
  assert.equal(after.find("B".repeat(22), 2), undefined);
});

test("a receipt is never replaced by a later one for the same request", async (t) => {
  const receipts = open(t, temporaryFolder(t));
  await receipts.keep(receiptOf(1));
  await receipts.keep({ ...receiptOf(1), usedCUMilli: 0 });
  assert.equal(receipts.find("A".repeat(22), 1)?.usedCUMilli, 21);
});

test("receipts are deleted after 90 days and not before", async (t) => {
  const clock = manualClock(Date.now());
  const receipts = open(t, temporaryFolder(t), clock);
  await receipts.keep(receiptOf(1));
  clock.advance(89 * day);
  await receipts.keep(receiptOf(2));
  assert.equal(receipts.find("A".repeat(22), 1)?.rid, 1);
  clock.advance(2 * day);
  await receipts.keep(receiptOf(3));
  assert.equal(receipts.find("A".repeat(22), 1), undefined);
  assert.equal(receipts.find("A".repeat(22), 2)?.rid, 2);
});

test("a data folder that cannot be written fails the job, and the pool reports it", (t) => {
  const dataDir = `${temporaryFolder(t)}/file-in-the-way/\0`;
  assert.throws(() => writeReceipts({ dataDir, rows: [], keepFrom: 0 }));
});
