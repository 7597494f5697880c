import assert from "node:assert/strict";
import { test } from "node:test";
import { AccountFeed } from "../../../../plugins/billing/accounts/account-feed.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { keptLog } from "../../../test-log.ts";

test("lost changes are logged, because keys that were revoked last may be valid again", async () => {
  const { log, lines: logged } = keptLog();
  let hasLostChanges = false;
  const feed = new AccountFeed({
    store: {
      changed: async () => ({ keys: [], overrides: undefined, hasLostChanges }),
    },
    clock: manualClock(),
    log,
    maxStaleMs: undefined,
    apply: () => {},
  });
  await feed.refresh();
  assert.deepEqual([logged, feed.count], [[], 0]);
  hasLostChanges = true;
  await feed.refresh();
  assert.deepEqual(logged, [
    "warn the database has lost changes of accounts: keys that were revoked last may be valid again",
  ]);
  assert.equal(feed.count, 1);
});
