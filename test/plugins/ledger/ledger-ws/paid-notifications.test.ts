/** Tests of the state machine of notifications that wait for their charge, with a scripted payer. */
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

async function notified(reserve: (costMilliCu: number) => object): Promise<{
  readonly sent: readonly string[];
  readonly refused: readonly string[];
}> {
  const sent: string[] = [];
  const refused: string[] = [];
  const failures: unknown[] = [];
  const [a, b] = ["a", "b"].map((id) => {
    const subscription = {
      id,
      method,
      isOpen: true,
      refuse({ code }: { readonly code: string }): void {
        subscription.isOpen = false;
        refused.push(`${id} ${code}`);
      },
    };
    return subscription;
  });
  const notifications = new PaidNotifications({
    payer: { reserve: async (costMilliCu: number) => reserve(costMilliCu) } as never,
    send: (message) =>
      void sent.push(/"subscription":"(.)","result":(.)/.exec(message)!.slice(1).join("")),
    onAdd: () => {},
    onSent: () => {},
    onError: (error) => void failures.push(error),
  });
  for (const [to, result] of [
    [a, "1"],
    [b, "2"],
    [a, "3"],
    [b, "4"],
  ] as const) {
    notifications.add(to!, result);
  }
  while (sent.length + refused.length < 2) await new Promise(setImmediate);
  await new Promise(setImmediate);
  await notifications.close();
  assert.deepEqual(failures, []);
  return { sent, refused };
}

test("nothing is sent if the charge cannot be written, and the subscriptions end", async () => {
  const release = (): void => assert.fail("released");
  const { sent, refused } = await notified(() => ({
    settle: () => Promise.resolve(false),
    release,
  }));
  assert.deepEqual(sent, []);
  assert.deepEqual(refused, ["a GATEWAY_SERVICE_UNAVAILABLE", "b GATEWAY_SERVICE_UNAVAILABLE"]);
});

test("what waits to be charged is counted in bytes, whichever characters it has", async () => {
  const reported: number[] = [];
  const charge = Promise.withResolvers<boolean>();
  const to: NotifiedSubscription = { id: "a", method, isOpen: true, refuse() {} };
  const notifications = new PaidNotifications({
    payer: {
      reserve: async () => ({ settle: () => charge.promise, release() {} }),
    } as never,
    send: () => {},
    onAdd: (bytes) => void reported.push(bytes),
    onSent: () => {},
    onError: (error) => assert.fail(error as Error),
  });
  for (const text of ["ab", "é", "é", "€", "ab", "😀"]) notifications.add(to, text);
  assert.deepEqual(reported, [0, 2, 4, 6, 9, 11]);
  assert.equal(notifications.waitingBytes, 15);
  charge.resolve(true);
  while (notifications.waitingBytes > 0) await new Promise(setImmediate);
  await notifications.close();
});
