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
