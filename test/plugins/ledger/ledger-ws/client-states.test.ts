/** Tests of the state machines of a client: operations, archive reads and notifications, with scripted payments. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  OperationListener,
  ArchiveMethod,
  NotificationListener,
} from "sluice-gateway/services";
import { ArchiveCalls } from "../../../../plugins/ledger/ledger-ws/archive-calls.ts";
import { CallReplies } from "../../../../plugins/ledger/ledger-ws/call-replies.ts";
import { Operation } from "../../../../plugins/ledger/ledger-ws/follow-upstream.ts";
import { KeyLimit } from "../../../../plugins/ledger/ledger-ws/key-limit.ts";
import {
  PaidNotifications,
  type NotifiedSubscription,
} from "../../../../plugins/ledger/ledger-ws/paid-notifications.ts";
import { hashAt } from "../ledger/follow/follow-node.ts";

/** An operation on descendants, whose results and payments the test scripts. */
function startOperation(maxHeld = Infinity) {
  const sent: string[] = [];
  const done: string[] = [];
  let listener: OperationListener | undefined;
  let held = 0;
  const client = { isBusy: false, isWritten: true };
  const operation = new Operation({
    id: "op",
    method: { name: "chainHead_v1_storage", cuMilli: 500 },
    parts: [
      { kind: "storage", hash: hashAt(1), key: "0x", type: "descendantsValues", childTrie: null },
    ],
    follow: {
      start() {},
      close() {},
      hasPinned: () => true,
      unpin: () => true,
      header: () => Promise.resolve(undefined),
      operate(_, to) {
        listener = to;
        return { resume: () => void done.push("resumed"), stop: () => true };
      },
    },
    payment: {
      settle: ([line]) => {
        done.push(`paid ${line?.costMilliCu}`);
        return Promise.resolve(client.isWritten);
      },
      release: () => void done.push("released"),
    },
    send: (event) => void sent.push(event),
    isBusy: () => client.isBusy,
    hold: (chars) => (held += chars) <= maxHeld,
    onEnd: () => void done.push("ended"),
    onCharge() {},
  });
  assert.ok(operation.start());
  const node = listener!;
  return { operation, node, sent, done, client, held: () => held };
}

const page = `["${"x".repeat(600_000)}"]`;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("after a mebibyte the client must continue, and the node waits meanwhile", async () => {
  const { operation, node, sent, done } = startOperation();
  for (let n = 0; n < 3; n++) node.onResult(page);
  await settled();
  assert.equal(sent.length, 3);
  assert.equal(sent[2], '{"event":"operationWaitingForContinue","operationId":"op"}');
  assert.equal(operation.isPaused, true);
  assert.equal(node.isBehind, true);
  node.onEnd({ kind: "done" });
  operation.resume();
  assert.equal(sent.length, 3);
  operation.resume(true);
  assert.equal(sent.length, 5);
  assert.equal(sent[4], '{"event":"operationStorageDone","operationId":"op"}');
  assert.deepEqual(
    done.filter((each) => each !== "resumed"),
    ["paid 500", "ended"],
  );
});

test("results wait while the client does not read, up to a limit", async () => {
  const { operation, node, sent, done, client, held } = startOperation(1_000_000);
  client.isBusy = true;
  node.onResult('["0x01"]');
  await settled();
  assert.equal(sent.length, 0);
  client.isBusy = false;
  operation.resume();
  assert.equal(sent.length, 1);
  client.isBusy = true;
  node.onResult(page);
  node.onResult(page);
  assert.equal(sent[1], '{"event":"operationInaccessible","operationId":"op"}');
  assert.deepEqual(done.at(-1), "ended");
  assert.equal(held(), 0);
});

test("nothing is sent if the charge cannot be written", async () => {
  const { node, sent, client } = startOperation();
  client.isWritten = false;
  node.onResult('["0x01"]');
  node.onEnd({ kind: "done" });
  await settled();
  assert.deepEqual(sent, ['{"event":"operationInaccessible","operationId":"op"}']);
});

const archiveMethod: ArchiveMethod = {
  name: "archive_v1_storage",
  notification: "archive_v1_storageEvent",
  openMilliCu: 500,
  notificationMilliCu: 100,
  isPerItem: true,
  errorEvent: "storageError",
};
const params = `["0x${"11".repeat(32)}",[{"key":"0x01","type":"value"}],null]`;

function startRead() {
  const sent: string[] = [];
  const listeners: NotificationListener[] = [];
  const calls = new ArchiveCalls({
    payer: {
      reserve: async () => ({ settle: async () => true, release() {} }),
    } as never,
    notifications: {} as never,
    replies: new CallReplies((message) => void sent.push(message), { called() {} }),
    onError: (error) => assert.fail(error as Error),
    archive: {
      methods: new Map([[archiveMethod.name, archiveMethod]]),
      stopping: new Map(),
      async open() {
        return {
          kind: "open",
          subscription: {
            start: (listener) => void listeners.push(listener),
            close() {},
            pause() {},
            resume() {},
          },
        };
      },
    },
    quota: new KeyLimit(2).of("key"),
    isBusy: () => false,
  });
  const begin = (): Promise<void> => calls.answer({ id: "1", method: archiveMethod.name, params });
  return { sent, listeners, begin };
}

test("the last event of a read says why the gateway has ended it", async () => {
  const { sent, listeners, begin } = startRead();
  await begin();
  listeners[0]?.onEnd("clientTooSlow");
  const last = JSON.parse(sent.at(-1) ?? "") as { params: { result: unknown } };
  assert.deepEqual(last.params.result, {
    event: "storageError",
    error: "the gateway has ended the read: CLIENT_TOO_SLOW",
  });
  assert.equal(sent.length, 2);
});

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
