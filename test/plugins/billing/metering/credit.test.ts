import assert from "node:assert/strict";
import { test } from "node:test";
import { CreditBook } from "../../../../plugins/billing/metering/credit.ts";
import { day, minute, noon } from "./fixture.ts";

/** Enough sweeps to start over several times. */
function sweepAll(book: CreditBook, now: number): void {
  for (let i = 0; i < 20; i++) book.sweep(now);
}

test("a key is kept while a window or a reservation of it counts, then dropped", () => {
  const book = new CreditBook();
  book.key("key_idle");
  book.key("key_charged").add(noon, 5);
  const held = book.key("key_held");
  book.hold(held, book.workspace("ws_1"), 0);
  sweepAll(book, noon);
  assert.equal(book.keys, 2);
  assert.equal(book.findKey("key_idle"), undefined);
  sweepAll(book, noon + 2 * day);
  assert.equal(book.keys, 2, "the 30 days still count it");
  sweepAll(book, noon + 31 * day);
  assert.equal(book.keys, 1);
  assert.equal(book.key("key_held"), held);
  book.free(held, book.workspace("ws_1"), 0);
  sweepAll(book, noon + 31 * day);
  assert.equal(book.keys, 0);
});

test("repeated sweeps cover a large book that changes meanwhile, and keep workspaces", () => {
  const book = new CreditBook();
  for (let i = 0; i < 4_500; i++) {
    const key = book.key(`key_${i}`);
    if (i % 2 === 0) key.add(noon, 1);
  }
  book.workspace("ws_1");
  for (let i = 0; i < 3; i++) book.sweep(noon + minute);
  for (let i = 4_500; i < 5_000; i++) book.key(`key_${i}`).add(noon, 1);
  sweepAll(book, noon + minute);
  assert.equal(book.keys, 2_250 + 500);
  sweepAll(book, noon + 31 * day);
  assert.equal(book.keys, 0);
  assert.notEqual(book.findWorkspace("ws_1"), undefined);
});

test("byNumber finds the keys and workspaces of charges to reverse", () => {
  const book = new CreditBook();
  const key = book.key("key_1");
  key.number = 7;
  book.workspace("ws_1").number = 8;
  const { keys, workspaces } = book.byNumber();
  assert.equal(keys.get(7), key);
  assert.equal(workspaces.get(8), book.workspace("ws_1"));
});
