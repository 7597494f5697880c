/** Tests of the state machine of a call's event stream: its opening, what keeps it alive, what a slow client misses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventStream } from "../../../../plugins/tools/mcp/event-stream.ts";
import type { Exchange, Sink } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

interface Fake {
  readonly x: Exchange;
  readonly written: string[];
  readonly sink: Sink;
  opened: number;
  ended: number;
  /** The chunk that waited, with the end, for steps such as the one that charges. */
  last: string | undefined;
  room: boolean;
}

function fakeExchange(): Fake {
  const written: string[] = [];
  const sink: Sink = {
    onDrain: undefined,
    write(chunk) {
      written.push(Buffer.from(chunk).toString());
      return fake.room;
    },
    end(_, last) {
      fake.ended++;
      fake.last = last === undefined ? undefined : Buffer.from(last).toString();
      if (fake.last !== undefined) written.push(fake.last);
      return Promise.resolve();
    },
    fail() {},
  };
  const stream = (): Promise<Sink> => {
    fake.opened++;
    return Promise.resolve(sink);
  };
  // The stream uses nothing else of an exchange.
  const x = { stream } as unknown as Exchange;
  const fake: Fake = { x, written, sink, opened: 0, ended: 0, last: undefined, room: true };
  return fake;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const progressOf = (text: string): unknown =>
  (JSON.parse(text.slice(text.indexOf("{"))) as { params?: { progress: unknown } }).params
    ?.progress;

test("a silent stream gets a comment every 15 s until its end", async () => {
  const fake = fakeExchange();
  const clock = manualClock();
  const events = new EventStream(fake.x, clock, { token: "1" });
  events.progress(1);
  await settled();
  clock.advance(45_000);
  assert.deepEqual(fake.written.slice(1), [": \n\n", ": \n\n", ": \n\n"]);
  await events.end("{}");
  const { length } = fake.written;
  clock.advance(60_000);
  assert.equal(fake.written.length, length);
});

test("a client that does not read misses progress, but never the answer", async () => {
  const fake = fakeExchange();
  const events = new EventStream(fake.x, manualClock(), { token: "1" });
  events.progress(1);
  await settled();
  fake.room = false;
  for (const done of [2, 3, 4]) events.progress(done);
  fake.sink.onDrain?.();
  events.progress(5);
  events.progress(6);
  await events.end("{}");
  assert.deepEqual(fake.written.map(progressOf), [1, 2, 5, undefined]);
});

test("without a progress token no progress is sent; a question opens the stream, and a slow client does not miss it", async () => {
  const fake = fakeExchange();
  fake.room = false;
  const events = new EventStream(fake.x, manualClock(), {});
  events.progress(1);
  assert.equal(events.opened, false);
  events.request("a", "roots/list", {});
  assert.equal(events.opened, true);
  await settled();
  events.request("b", "elicitation/create", { message: "?" });
  await events.end("{}");
  const data = fake.written.map((text): unknown => JSON.parse(text.slice(text.indexOf("{"))));
  assert.deepEqual(data, [
    { jsonrpc: "2.0", id: "a", method: "roots/list", params: {} },
    { jsonrpc: "2.0", id: "b", method: "elicitation/create", params: { message: "?" } },
    {},
  ]);
});

test("a client that does not read misses log messages, and the messages of a tool that logs without end are dropped", async () => {
  const fake = fakeExchange();
  const events = new EventStream(fake.x, manualClock(), { level: "info" });
  events.log("t", "debug", "too mild");
  assert.equal(events.opened, false);
  for (let at = 0; at < 5000; at++) events.log("t", "info", at);
  await settled();
  assert.equal(fake.written.length, 1000);
  fake.room = false;
  events.log("t", "info", "seen");
  events.log("t", "emergency", "missed");
  fake.sink.onDrain?.();
  events.log("t", "info", "seen again");
  await events.end("{}");
  events.log("t", "info", "after the end");
  const data = fake.written.slice(1000).map((text) => /"data":"([a-z ]+)"/.exec(text)?.[1]);
  assert.deepEqual(data, ["seen", "seen again", undefined]);
});
