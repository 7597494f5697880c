import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import {
  kind,
  RecordCursor,
  maxRecordBytes,
  writeClosed,
  writeName,
} from "../../../../plugins/billing/metering/records.ts";
import { RingReader } from "../../../../plugins/billing/metering/ring-reader.ts";
import { RingWriter } from "../../../../plugins/billing/metering/ring-writer.ts";
import { makeRing } from "../../../../plugins/billing/metering/ring.ts";

/** Returns the ids of the name records in `bytes`. */
function idsIn(bytes: Buffer): number[] {
  const ids: number[] = [];
  const cursor = new RecordCursor(bytes);
  while (cursor.next()) {
    if (cursor.kind === kind.name) ids.push(cursor.uint(8));
  }
  return ids;
}

const size = 1 << 13;
const steps = fc.array(
  fc.oneof(
    fc.record({ what: fc.constant("write" as const), chars: fc.integer({ min: 0, max: 300 }) }),
    fc.record({ what: fc.constant("take" as const) }),
    fc.record({ what: fc.constant("discard" as const) }),
  ),
  { maxLength: 200 },
);

for (const start of [0, 2 ** 31 - 4096, 2 ** 32 - 4096]) {
  test(`records are read as they were written, across the end of the ring, from position ${start}`, () => {
    fc.assert(
      fc.property(steps, (list) => {
        const shared = makeRing(size, start);
        const writer = new RingWriter(shared, 1024);
        const reader = new RingReader(shared);
        let waiting: number[] = [];
        let next = 1;
        for (const step of list) {
          if (step.what === "write") {
            if (writer.free < 2 * maxRecordBytes) continue;
            const id = next++;
            writer.advance(
              writeName(writer, writer.claim(maxRecordBytes), id, "é".repeat(step.chars)),
            );
            writer.publish(false);
            waiting.push(id);
          } else if (step.what === "take") {
            assert.deepEqual(idsIn(reader.take()), waiting);
            reader.done();
            writer.freeUpTo(reader.head);
            waiting = [];
            assert.equal(writer.free, size);
          } else {
            writer.discardAll();
            assert.deepEqual(idsIn(reader.discard()), waiting);
            assert.equal(reader.isEmpty, true);
            waiting = [];
            assert.equal(writer.free, size);
          }
        }
      }),
      { numRuns: 100 },
    );
  });
}

test("records become visible together when they are published", () => {
  const shared = makeRing(size);
  const writer = new RingWriter(shared, 1024);
  const reader = new RingReader(shared);
  writer.advance(writeName(writer, writer.claim(maxRecordBytes), 1, "a"));
  writer.advance(writeName(writer, writer.claim(maxRecordBytes), 2, "b"));
  assert.equal(reader.isEmpty, true);
  assert.equal(reader.take().length, 0);
  writer.publish(false);
  assert.deepEqual(idsIn(reader.take()), [1, 2]);
});

test("records that were taken but not processed are taken again", () => {
  const shared = makeRing(size);
  const writer = new RingWriter(shared, 1024);
  const reader = new RingReader(shared);
  for (const id of [1, 2]) {
    writer.advance(writeName(writer, writer.claim(maxRecordBytes), id, "a"));
    writer.publish(false);
    assert.equal(idsIn(reader.take()).length, id);
  }
});

test("the writer detects that the reader has taken the records of a group", () => {
  const shared = makeRing(size);
  const writer = new RingWriter(shared, 1024);
  const reader = new RingReader(shared);
  const start = writer.published;
  writer.advance(writeClosed(writer, writer.claim(maxRecordBytes), 1, 1, 1));
  writer.publish(false);
  assert.equal(writer.hasTakenBeyond(start), false);
  reader.take();
  assert.equal(writer.hasTakenBeyond(start), true);
  assert.equal(writer.hasTakenBeyond(writer.published), false);
});

test("an old discard position does not discard later records", () => {
  const shared = makeRing(size);
  const writer = new RingWriter(shared, 1024);
  const reader = new RingReader(shared);
  for (const id of [1, 2]) {
    writer.advance(writeName(writer, writer.claim(maxRecordBytes), id, "a"));
    writer.publish(false);
    if (id === 1) {
      reader.take();
      reader.done();
    }
  }
  assert.equal(reader.discard().length, 0);
  assert.deepEqual(idsIn(reader.take()), [2]);
});

test("bytes that are not records throw", () => {
  assert.throws(
    () => idsIn(Buffer.from([9, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    /invalid data/,
  );
  assert.throws(
    () => idsIn(Buffer.from([4, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
    /invalid data/,
  );
});
