import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { atEndOfTurn, type Writer } from "../../plugins/chat/turn.ts";

test("writers are told in their order, once for each time, when the turn of the event loop has ended", async () => {
  const told: string[] = [];
  const writer = (name: string): Writer => ({ turnEnds: () => told.push(name) });
  const one = writer("one");
  atEndOfTurn(one);
  atEndOfTurn(writer("other"));
  await Promise.resolve();
  assert.deepEqual(told, []);
  await setImmediate();
  assert.deepEqual(told, ["one", "other"]);
  atEndOfTurn(one);
  await setImmediate();
  assert.deepEqual(told, ["one", "other", "one"]);
});

test("who becomes due while others are told is told too", async () => {
  const told: string[] = [];
  const late: Writer = { turnEnds: () => told.push("late") };
  atEndOfTurn({ turnEnds: () => atEndOfTurn(late) });
  await setImmediate();
  assert.deepEqual(told, ["late"]);
  atEndOfTurn(late);
  await setImmediate();
  assert.deepEqual(told, ["late", "late"]);
});
