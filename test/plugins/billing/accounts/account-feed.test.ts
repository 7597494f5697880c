import assert from "node:assert/strict";
import { test } from "node:test";
import { AccountFeed } from "../../../../plugins/billing/accounts/account-feed.ts";
import type { Log } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

test("lost changes are logged, because keys that were revoked last may be valid again", () => {
  const logged: string[] = [];
  const keep = (_: object, message: string): void => void logged.push(message);
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep, child: () => log };
  let hasLostChanges = false;
  const feed = new AccountFeed({
    store: { changed: () => ({ keys: [], overrides: undefined, hasLostChanges }) },
    clock: manualClock(),
    log,
    maxStaleMs: undefined,
    apply: () => {},
  });
  void feed.refresh();
  assert.deepEqual([logged, feed.count], [[], 0]);
  hasLostChanges = true;
  void feed.refresh();
  assert.deepEqual(logged, [
    "the database has lost changes of accounts: keys that were revoked last may be valid again",
  ]);
  assert.equal(feed.count, 1);
});
