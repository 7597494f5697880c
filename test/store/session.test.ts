/** Tests of the state machine of the looks of a gateway at its store, with a manual clock. */
import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { test } from "node:test";
import type { SqlRow, Watch } from "../../src/plugin.ts";
import { createSession } from "../../src/store/session.ts";
import { manualClock } from "../../src/testing/clock.ts";

interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
  readonly answer: (row: SqlRow) => void;
  readonly fail: (error: Error) => void;
}

function setUp() {
  const clock = manualClock();
  const statements: Statement[] = [];
  const session = createSession((text, values = []) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly SqlRow[]>();
    statements.push({ text, values, answer: (row) => resolve([row]), fail: reject });
    return promise;
  }, clock);
  const notified: unknown[] = [];
  const watch = (name: string, more: Partial<Watch> = {}): Disposable =>
    session.watch({
      columns: { newest: `(SELECT max(${name}) FROM things WHERE id = $1)` },
      values: () => [name],
      seen: ({ newest }) => void notified.push(`${name} ${String(newest)}`),
      failed: (error) => void notified.push(`${name} ${String(error)}`),
      ...more,
    });
  const pass = async (): Promise<void> => {
    clock.advance(250);
    await turn();
  };
  return { session, statements, notified, watch, pass };
}

test("a failure is passed to every watch, and the next look works again", async () => {
  const { session, statements, notified, watch, pass } = setUp();
  watch("a");
  watch("b", { seen: () => assert.fail("no row") });
  const looked = assert.rejects(session.look(), /away/);
  await turn();
  statements[0]?.fail(new Error("away"));
  await looked;
  assert.deepEqual(notified, ["a Error: away", "b Error: away"]);
  await pass();
  statements[1]?.answer({ now: 1, of_0_newest: 7 });
  await turn();
  assert.deepEqual(notified.slice(2), ["a 7", "b AssertionError [ERR_ASSERTION]: no row"]);
});

test("a look starts after the call, also if another one is under way", async () => {
  const { session, statements, watch } = setUp();
  watch("a");
  const first = session.look();
  await turn();
  const [second, third] = [session.look(), session.look()];
  await turn();
  assert.equal(statements.length, 1);
  statements[0]?.answer({ now: 1 });
  await first;
  await turn();
  assert.equal(statements.length, 2, "calls of the same turn share a look");
  statements[1]?.answer({ now: 2 });
  await Promise.all([second, third]);
});
