/** How the state machine of a client's archive reads reports their end, with a scripted archive. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ArchiveMethod, NotificationListener } from "sluice-gateway/services";
import { ArchiveCalls } from "../../../../plugins/ledger/ledger-ws/archive-calls.ts";
import { CallReplies } from "../../../../plugins/ledger/ledger-ws/call-replies.ts";
import { KeyLimit } from "../../../../plugins/ledger/ledger-ws/key-limit.ts";

const method: ArchiveMethod = {
  name: "archive_v1_storage",
  notification: "archive_v1_storageEvent",
  openMilliCu: 500,
  notificationMilliCu: 100,
  isPerItem: true,
  errorEvent: "storageError",
};
const params = `["0x${"11".repeat(32)}",[{"key":"0x01","type":"value"}],null]`;

function setUp() {
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
      methods: new Map([[method.name, method]]),
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
  const begin = (): Promise<void> => calls.answer({ id: "1", method: method.name, params });
  return { sent, listeners, begin };
}

test("the last event of a read says why the gateway has ended it", async () => {
  const { sent, listeners, begin } = setUp();
  await begin();
  listeners[0]?.onEnd("clientTooSlow");
  const last = JSON.parse(sent.at(-1) ?? "") as { params: { result: unknown } };
  assert.deepEqual(last.params.result, {
    event: "storageError",
    error: "the gateway has ended the read: CLIENT_TOO_SLOW",
  });
  assert.equal(sent.length, 2);
});
