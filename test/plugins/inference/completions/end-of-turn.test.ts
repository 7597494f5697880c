import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import {
  atEndOfTurn,
  type TurnWriter,
} from "../../../../plugins/inference/completions/end-of-turn.ts";

function unexpected(error: unknown): void {
  assert.fail(String(error));
}

test("writers are notified in order, once per call, at the end of the turn of the event loop", async () => {
  const written: string[] = [];
  const writer = (name: string): TurnWriter => ({
    onTurnEnd: () => written.push(name),
    fail: unexpected,
  });
  const one = writer("one");
  atEndOfTurn(one);
  atEndOfTurn(writer("other"));
  await Promise.resolve();
  assert.deepEqual(written, []);
  await setImmediate();
  assert.deepEqual(written, ["one", "other"]);
  atEndOfTurn(one);
  await setImmediate();
  assert.deepEqual(written, ["one", "other", "one"]);
});

test("a writer that is added while others are notified is notified, too", async () => {
  const written: string[] = [];
  const late: TurnWriter = { onTurnEnd: () => written.push("late"), fail: unexpected };
  atEndOfTurn({ onTurnEnd: () => atEndOfTurn(late), fail: unexpected });
  await setImmediate();
  assert.deepEqual(written, ["late"]);
  atEndOfTurn(late);
  await setImmediate();
  assert.deepEqual(written, ["late", "late"]);
});

test("a writer that throws gets its error, and the others are still notified", async () => {
  const written: string[] = [];
  const broken: TurnWriter = {
    onTurnEnd() {
      throw new Error("a bug");
    },
    fail: (error) => void written.push(String(error)),
  };
  atEndOfTurn(broken);
  atEndOfTurn({ onTurnEnd: () => written.push("other"), fail: unexpected });
  await setImmediate();
  assert.deepEqual(written, ["Error: a bug", "other"]);
  atEndOfTurn({ onTurnEnd: () => written.push("later"), fail: unexpected });
  await setImmediate();
  assert.equal(written.at(-1), "later");
});
