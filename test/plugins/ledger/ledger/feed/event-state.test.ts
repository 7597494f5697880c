import assert from "node:assert/strict";
import { test } from "node:test";
import { EventState } from "../../../../../plugins/ledger/ledger/feed/notification-state.ts";

test("a node that lags does not repeat justifications", () => {
  const state = new EventState();
  const accept = (n: number): readonly string[] | string => state.accept(`"0x${n}"`);
  for (let n = 0; n < 100; n++) assert.deepEqual(accept(n), [`"0x${n}"`]);
  state.moved();
  for (let n = 36; n < 100; n++) assert.deepEqual(accept(n), []);
  assert.deepEqual(accept(100), ['"0x100"']);
  assert.deepEqual(accept(0), ['"0x0"'], "the number of remembered ones is limited");
});
