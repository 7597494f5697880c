import assert from "node:assert/strict";
import { test } from "node:test";
import { ExchangeState } from "../../../src/pipeline/run/states.ts";

/** Makes the transitions that only the exchange may make public. */
class TestState extends ExchangeState {
  override leaveSurface(): boolean {
    return super.leaveSurface();
  }
  override beginStream(problem: string): void {
    super.beginStream(problem);
  }
  override markEnded(): boolean {
    return super.markEnded();
  }
  override markSettled(): boolean {
    return super.markSettled();
  }
}

test("an exchange that has ended or settled stays so, whatever comes afterwards", () => {
  for (const end of [(x: TestState) => x.markEnded(), (x: TestState) => x.markSettled()]) {
    const x = new TestState();
    assert.ok(end(x));
    x.enterSurface();
    x.beginReply("timedOut");
    x.beginStream("an answer has begun");
    x.streamFailed();
    assert.ok(x.hasEnded);
    assert.ok(!x.isStreaming);
    assert.ok(!x.isUnanswered);
    assert.ok(!x.markEnded());
  }
});

test("an exchange settles once", () => {
  const x = new TestState();
  assert.ok(x.markEnded());
  assert.ok(x.markSettled());
  assert.ok(!x.markSettled());
});

test("a surface streams only before its answer has begun; a head that was not sent can still become a reply", () => {
  const x = new TestState();
  assert.throws(() => x.beginStream("no surface yet"), /no surface yet/);
  x.enterSurface();
  x.beginStream("unreachable");
  assert.ok(x.isStreaming);
  assert.throws(() => x.beginStream("an answer has begun"), /an answer has begun/);
  x.streamFailed();
  assert.ok(x.isUnanswered);
  x.beginReply(undefined);
  assert.throws(() => x.beginStream("an answer has begun"), /an answer has begun/);
});

test("an exchange that ended earlier waits for its surface", () => {
  const x = new TestState();
  x.enterSurface();
  x.markEnded();
  assert.ok(x.isSurfaceRunning);
  assert.ok(x.leaveSurface());
  assert.ok(!x.leaveSurface());
});
