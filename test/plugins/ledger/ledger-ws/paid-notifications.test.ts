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

test("notifications of one turn are charged together, without those of a subscription that ends meanwhile", async () => {
  const charged: unknown[] = [];
  const sent: string[] = [];
  const failures: unknown[] = [];
  const refuse = (): void => assert.fail("refused");
  const [leaving, staying] = ["leaving", "staying"].map((id) => ({
    id,
    method,
    isOpen: true,
    refuse,
  }));
  assert.ok(leaving !== undefined && staying !== undefined);
  const reserved: number[] = [];
  const notifications = new PaidNotifications({
    payer: {
      async reserve(costMilliCu: number) {
        reserved.push(costMilliCu);
        leaving.isOpen = false;
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
  for (const to of [staying, leaving, staying]) notifications.add(to, "1");
  while (sent.length < 2 && failures.length === 0) await new Promise(setImmediate);
  await notifications.close();
  assert.deepEqual([failures, reserved], [[], [300]]);
  assert.deepEqual(charged, [{ method: method.name, costMilliCu: 200 }]);
  for (const message of sent) assert.match(message, /"subscription":"staying"/);
});
