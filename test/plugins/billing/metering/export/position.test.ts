import assert from "node:assert/strict";
import { test } from "node:test";
import {
  lastRead,
  moved,
  parsePosition,
  positionText,
  start,
} from "../../../../../plugins/billing/metering/export/database-pages.ts";

const live = { id: 1, last: 10, hasEnded: false };
const ended = { id: 2, last: 5, hasEnded: true };
const late = { id: 3, last: 7, hasEnded: false };

test("a position has one number per gateway that has charges left or may make more", () => {
  const first = moved(
    start,
    [live, ended],
    new Map([
      [1, 4],
      [2, 2],
    ]),
  );
  assert.equal(positionText(first), "cur_2,1:4,2:2");
  const second = moved(first, [live, ended, late], new Map([[2, 5]]));
  assert.equal(positionText(second), "cur_3,1:4,3:0");
  assert.deepEqual(
    [live, ended, late].map((replica) => lastRead(second, replica)),
    [4, 5, 0],
  );
  const done = moved(
    second,
    [{ ...live, hasEnded: true }, ended, late],
    new Map([
      [1, 10],
      [3, 7],
    ]),
  );
  assert.equal(positionText(done), "cur_3,3:7");
  assert.equal(lastRead(done, { id: 4, last: 1, hasEnded: true }), 0);
});

test("a gateway whose charges the database has lost is not read again when they come back", () => {
  const position = moved(start, [live], new Map([[1, 10]]));
  const afterLoss = moved(position, [{ ...live, last: 6 }], new Map());
  assert.equal(lastRead(afterLoss, live), 10);
});

test("a position is written as text and parsed again", () => {
  for (const text of ["cur_0", "cur_17,18:2503,19:12", "cur_3,1:9007199254740991"]) {
    assert.equal(positionText(parsePosition(text) ?? assert.fail(text)), text);
  }
  for (const text of ["", "cur_", "cur_1,", "cur_1,2", "cur_1,2:3 ", "chg_ab_1_0", "cur_-1"]) {
    assert.equal(parsePosition(text), undefined, text);
  }
});
