import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test, type TestContext } from "node:test";
import { StoreError } from "../../../../../src/store/store-error.ts";
import { Transactions } from "../../../../../plugins/billing/accounts/embedded/transactions.ts";
import { atOnce } from "../../../../../src/testing/at-once.ts";
import { manualClock, type ManualClock } from "../../../../../src/testing/clock.ts";

interface Open {
  readonly db: DatabaseSync;
  readonly clock: ManualClock;
  readonly transactions: Transactions;
  readonly add: (row: string) => void;
  /** Returns the rows, in the order in which they were added. */
  readonly rows: () => unknown[];
  /** Number of commits that were reported to the listener. */
  readonly commits: () => number;
}

function open(t: TestContext): Open {
  const db = new DatabaseSync(":memory:");
  t.after(() => db.isOpen && db.close());
  db.exec("CREATE TABLE rows (name TEXT)");
  const clock = manualClock();
  let commits = 0;
  const committed = (): void => void commits++;
  const transactions = new Transactions({ db, file: "test.db", maxMs: 100, clock, committed });
  return {
    db,
    clock,
    transactions,
    add: (row) => void db.prepare("INSERT INTO rows VALUES (?)").run(row),
    rows: () =>
      db
        .prepare("SELECT name FROM rows ORDER BY rowid")
        .all()
        .map((row) => row["name"]),
    commits: () => commits,
  };
}

test("work without a promise is answered at once, and so is the work that joins it", (t) => {
  const { transactions, add, rows, commits } = open(t);
  const inner = (): string => {
    add("inner");
    return "value";
  };
  assert.equal(atOnce(transactions.run(() => transactions.run(inner))), "value");
  assert.deepEqual([rows(), commits()], [["inner"], 1]);
  const bug = new Error("a bug");
  const failing = (): never => {
    add("lost");
    throw bug;
  };
  assert.throws(() => transactions.run(failing), bug);
  assert.deepEqual([rows(), commits()], [["inner"], 1]);
});

test("transactions that wait run one after the other, and only their own work joins them", async (t) => {
  const { transactions, add, rows, commits } = open(t);
  const held = Promise.withResolvers<void>();
  const first = transactions.run(async () => {
    await transactions.run(() => add("first, before"));
    await held.promise;
    await transactions.run(() => add("first, after"));
  });
  const failed = transactions.run(() => {
    add("lost");
    throw new Error("undone");
  });
  const last = transactions.run(() => add("last"));
  assert.ok(failed instanceof Promise && last instanceof Promise);
  held.resolve();
  await Promise.all([first, assert.rejects(failed, /undone/), last]);
  assert.deepEqual(rows(), ["first, before", "first, after", "last"]);
  assert.equal(commits(), 2);
  assert.equal(atOnce(transactions.run(() => "free again")), "free again");
});

test("work that was started by a transaction and outlives it gets a transaction of its own", async (t) => {
  const { transactions, add, rows } = open(t);
  let later: Promise<void> | undefined;
  const held = Promise.withResolvers<void>();
  atOnce(
    transactions.run(() => {
      add("first");
      later = held.promise.then(() => transactions.run(() => add("later")));
      return undefined;
    }),
  );
  held.resolve();
  await later;
  assert.deepEqual(rows(), ["first", "later"]);
});

test("thousands of waiting transactions do not overflow the stack", async (t) => {
  const { transactions, add, rows } = open(t);
  const held = Promise.withResolvers<void>();
  const first = transactions.run(() => held.promise);
  const others = Array.from({ length: 20_000 }, (_, n) => transactions.run(() => add(String(n))));
  held.resolve();
  await Promise.all([first, ...others]);
  assert.equal(rows().length, 20_000);
});

test("a transaction that takes too long is rolled back, frees the queue and cannot write any more", async (t) => {
  const { transactions, add, rows, clock } = open(t);
  const held = Promise.withResolvers<void>();
  let late: unknown;
  const slow = transactions.run(async () => {
    add("lost");
    await held.promise;
    try {
      await transactions.run(() => add("late"));
    } catch (error) {
      late = error;
    }
  });
  const next = transactions.run(() => add("next"));
  const isTooLong = (error: unknown): boolean =>
    error instanceof StoreError && error.code === "SLUICE_STORE_BUSY";
  clock.advance(100);
  await assert.rejects(async () => slow, isTooLong);
  await next;
  held.resolve();
  while (late === undefined) await Promise.resolve();
  assert.ok(isTooLong(late));
  assert.deepEqual(rows(), ["next"]);
});

test("a transaction that SQLite rolled back keeps nothing, and joins nothing", (t) => {
  const { transactions, db, add, rows, commits } = open(t);
  const isRolledBack = (error: unknown): boolean =>
    error instanceof StoreError && error.code === "SLUICE_STORE_FAILED";
  // Does what SQLite does on a full disk (https://sqlite.org/lang_transaction.html, "Response to errors within a
  // transaction").
  const lose = (): void => {
    add("lost");
    db.exec("ROLLBACK");
  };
  assert.throws(() => transactions.run(lose), isRolledBack);
  const loseFirst = (): void => {
    lose();
    atOnce(transactions.run(() => add("without the first")));
  };
  assert.throws(() => transactions.run(loseFirst), isRolledBack);
  assert.deepEqual([rows(), commits()], [[], 0]);
});

test("a closed database fails the transaction that is open and those that wait", async (t) => {
  const { transactions, db, add } = open(t);
  const held = Promise.withResolvers<void>();
  const first = transactions.run(() => held.promise);
  const next = transactions.run(() => add("next"));
  db.close();
  held.resolve();
  await assert.rejects(async () => first, StoreError);
  await assert.rejects(async () => next, StoreError);
});
