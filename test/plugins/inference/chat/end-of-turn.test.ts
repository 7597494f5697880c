import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { atEndOfTurn, type Writer } from "../../../../plugins/inference/chat/end-of-turn.ts";

function fail(error: unknown): void {
  assert.fail(String(error));
}

test("writers are notified in order, once per call, at the end of the turn of the event loop", async () => {
  const told: string[] = [];
  const writer = (name: string): Writer => ({ turnEnds: () => told.push(name), broke: fail });
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
  const late: Writer = { turnEnds: () => told.push("late"), broke: fail };
  atEndOfTurn({ turnEnds: () => atEndOfTurn(late), broke: fail });
  await setImmediate();
  assert.deepEqual(told, ["late"]);
  atEndOfTurn(late);
  await setImmediate();
  assert.deepEqual(told, ["late", "late"]);
});

test("a writer that throws gets its error, and the others are still notified", async () => {
  const told: string[] = [];
  const broken: Writer = {
    turnEnds() {
      throw new Error("a bug");
    },
    broke: (error) => void told.push(String(error)),
  };
  atEndOfTurn(broken);
  atEndOfTurn({ turnEnds: () => told.push("other"), broke: fail });
  await setImmediate();
  assert.deepEqual(told, ["Error: a bug", "other"]);
  atEndOfTurn({ turnEnds: () => told.push("later"), broke: fail });
  await setImmediate();
  assert.equal(told.at(-1), "later");
});
