import assert from "node:assert/strict";
import { test } from "node:test";
import {
  PaidNotifications,
  type NotifiedSubscription,
} from "../../../../plugins/ledger/ledger-ws/paid-notifications.ts";

const method = {
  name: "chain_subscribeNewHeads",
  notification: "chain_newHead",
  notificationMilliCu: 100,
} as NotifiedSubscription["method"];

test("a subscription that ends while a charge is reserved is neither charged nor notified", async () => {
  const charged: unknown[] = [];
  const sent: string[] = [];
  const failures: unknown[] = [];
  const refuse = (): void => assert.fail("refused");
  const [first, leaving, staying] = ["first", "leaving", "staying"].map((id) => ({
    id,
    method,
    isOpen: true,
    refuse,
  }));
  assert.ok(first !== undefined && leaving !== undefined && staying !== undefined);
  let reserved = 0;
  const notifications = new PaidNotifications({
    payer: {
      async reserve() {
        // The first notification is charged alone. The others arrive meanwhile, and are charged together.
        if (++reserved === 2) leaving.isOpen = false;
        return {
          settle: async (lines: readonly unknown[]) => {
            charged.push(...lines);
            return true;
          },
          release: () => assert.fail("released"),
        };
      },
    } as never,
    send: (message) => void sent.push(message),
    onAdd: () => {},
    onSent: () => {},
    onError: (error) => void failures.push(error),
  });
  for (const to of [first, leaving, staying]) notifications.add(to, "1");
  while (sent.length < 2 && failures.length === 0) await new Promise(setImmediate);
  await notifications.close();
  assert.deepEqual([failures, reserved], [[], 2]);
  const line = { method: method.name, costMilliCu: 100 };
  assert.deepEqual(charged, [line, line]);
  assert.match(sent[0] ?? "", /"subscription":"first"/);
  assert.match(sent[1] ?? "", /"subscription":"staying"/);
});
