import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { atEndOfTurn, type Writer } from "../../../../plugins/inference/chat/end-of-turn.ts";

function unexpected(error: unknown): void {
  assert.fail(String(error));
}

test("writers are notified in order, once per call, at the end of the turn of the event loop", async () => {
  const told: string[] = [];
  const writer = (name: string): Writer => ({ onTurnEnd: () => told.push(name), fail: unexpected });
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

test("a writer that is added while others are notified is notified, too", async () => {
  const told: string[] = [];
  const late: Writer = { onTurnEnd: () => told.push("late"), fail: unexpected };
  atEndOfTurn({ onTurnEnd: () => atEndOfTurn(late), fail: unexpected });
  await setImmediate();
  assert.deepEqual(told, ["late"]);
  atEndOfTurn(late);
  await setImmediate();
  assert.deepEqual(told, ["late", "late"]);
});

test("a writer that throws gets its error, and the others are still notified", async () => {
  const told: string[] = [];
  const broken: Writer = {
    onTurnEnd() {
      throw new Error("a bug");
    },
    fail: (error) => void told.push(String(error)),
  };
  atEndOfTurn(broken);
  atEndOfTurn({ onTurnEnd: () => told.push("other"), fail: unexpected });
  await setImmediate();
  assert.deepEqual(told, ["Error: a bug", "other"]);
  atEndOfTurn({ onTurnEnd: () => told.push("later"), fail: unexpected });
  await setImmediate();
  assert.equal(told.at(-1), "later");
});
