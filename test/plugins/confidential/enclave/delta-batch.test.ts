import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import {
  createDeltaBatch,
  type DeltaBatch,
} from "../../../../plugins/confidential/enclave/delta-batch.ts";
import { maxFrameDataBytes } from "../../../../plugins/confidential/protocol/limits.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

interface Started {
  readonly clock: ManualClock;
  readonly batch: DeltaBatch;
  /** Plaintexts, parsed. */
  readonly sent: Record<string, unknown>[];
  readonly sizes: number[];
}

function start(): Started {
  const clock = manualClock();
  const sent: Record<string, unknown>[] = [];
  const sizes: number[] = [];
  const batch = createDeltaBatch(clock, (data) => {
    sizes.push(data.length);
    sent.push(JSON.parse(Buffer.from(data).toString()) as Record<string, unknown>);
  });
  return { clock, batch, sent, sizes };
}

describe("batches of deltas", () => {
  test("the first text is sent immediately, with the role that came before it", () => {
    const { batch, sent } = start();
    batch.add({ role: "assistant", content: "" });
    assert.deepEqual(sent, []);
    batch.add({ content: "The" });
    assert.deepEqual(sent, [{ role: "assistant", content: "The" }]);
  });

  test("later text is sent after eight tokens or 40 ms", () => {
    const { batch, sent, clock } = start();
    batch.add({ content: "0" });
    for (const content of ["1", "2", "3", "4", "5", "6", "7"]) batch.add({ content });
    assert.equal(sent.length, 1);
    batch.add({ content: "8" });
    assert.deepEqual(sent.slice(1), [{ content: "12345678" }]);
    batch.add({ content: "9" });
    clock.advance(39);
    assert.equal(sent.length, 2);
    batch.add({ content: "a" });
    clock.advance(1);
    assert.deepEqual(sent.slice(2), [{ content: "9a" }]);
    clock.advance(1_000);
    assert.equal(sent.length, 3);
  });

  test("a role alone is sent after 40 ms, and empty deltas are not sent", () => {
    const { batch, sent, clock } = start();
    batch.add({ role: "assistant", content: "" });
    clock.advance(40);
    assert.deepEqual(sent, [{ role: "assistant" }]);
    batch.add({});
    batch.add({ content: "" });
    batch.add({ content: null, refusal: null });
    clock.advance(1_000);
    batch.flush();
    assert.equal(sent.length, 1);
  });

  test("reasoning is sent before content, and deltas that cannot be combined are sent alone in order", () => {
    const { batch, sent } = start();
    batch.add({ content: "0" });
    batch.add({ reasoning_content: "hm" });
    batch.add({ content: "1" });
    batch.add({ reasoning_content: "hm again" });
    const call = { tool_calls: [{ index: 0, function: { name: "f" } }] };
    batch.add(call);
    batch.add({ content: "2" });
    batch.flush();
    assert.deepEqual(sent, [
      { content: "0" },
      { reasoning_content: "hm", content: "1" },
      { reasoning_content: "hm again" },
      call,
      { content: "2" },
    ]);
  });

  test("nothing is sent while the batch is held, and then few frames are sent", () => {
    const { batch, sent, clock } = start();
    batch.hold();
    for (let at = 0; at < 20; at++) batch.add({ content: "x" });
    clock.advance(1_000);
    assert.deepEqual(sent, []);
    batch.release();
    assert.deepEqual(sent, [{ content: "x".repeat(20) }]);
  });

  test("queued text is dropped when the batch is closed", () => {
    const { batch, sent, clock } = start();
    batch.add({ content: "0" });
    batch.add({ content: "1" });
    batch.close();
    clock.advance(1_000);
    batch.flush();
    assert.deepEqual(sent, [{ content: "0" }]);
  });

  test("all text arrives completely, in frames within the size limit", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 30 }),
      fc.integer({ min: 1, max: 30_000 }).map((length) => "\u0001".repeat(length)),
      fc.integer({ min: 4_000, max: 4_100 }).map((at) => `${"a".repeat(at)}😀😀`),
    );
    const delta = fc.record({ content: text, reasoning_content: text }, { requiredKeys: [] });
    const step = fc.oneof(delta, fc.constantFrom("hold", "release", "wait"));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const { batch, sent, sizes, clock } = start();
        const [said, thought] = ["content", "reasoning_content"].map((name) =>
          steps
            .map((each) => (typeof each === "object" ? (each[name as "content"] ?? "") : ""))
            .join(""),
        );
        for (const each of steps) {
          if (typeof each === "object") batch.add(each);
          else if (each === "wait") clock.advance(40);
          else batch[each]();
        }
        batch.flush();
        const joined = (name: string): string =>
          sent.map((each) => (typeof each[name] === "string" ? each[name] : "")).join("");
        assert.equal(joined("content"), said);
        assert.equal(joined("reasoning_content"), thought);
        for (const size of sizes) assert.ok(size <= maxFrameDataBytes);
        // A pair of surrogates that is torn apart would be escaped, one half at a time.
        for (const each of sent) assert.doesNotMatch(JSON.stringify(each), /\\ud[89ab]/);
      }),
      { numRuns: 60 },
    );
  });
});
