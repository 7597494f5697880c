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

/** The reads of a connection, with an archive that the test scripts. */
function setUp({ isFull = false } = {}) {
  const sent: string[] = [];
  const listeners: NotificationListener[] = [];
  const signals: (AbortSignal | undefined)[] = [];
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
      async open(_, __, signal) {
        signals.push(signal);
        if (isFull) return { kind: "full" };
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
  return { calls, sent, listeners, signals, begin };
}

test("the last event of a read says why the gateway has ended it", async () => {
  const { sent, listeners, begin } = setUp();
  const reasons = [
    ["clientTooSlow", "CLIENT_TOO_SLOW"],
    [undefined, "UPSTREAM_ERROR"],
  ] as const;
  for (const [reason, code] of reasons) {
    await begin();
    listeners.at(-1)?.onEnd(reason);
    const last = JSON.parse(sent.at(-1) ?? "") as { params: { result: unknown } };
    assert.deepEqual(last.params.result, {
      event: "storageError",
      error: `the gateway has ended the read: ${code}`,
    });
  }
  assert.equal(sent.length, 4);
});

test("a read above a limit is refused with an error that names the limit", async () => {
  const ofKey = setUp();
  for (let reads = 0; reads < 3; reads++) await ofKey.begin();
  const ofNodes = setUp({ isFull: true });
  await ofNodes.begin();
  assert.deepEqual(
    [ofKey, ofNodes].map(({ sent }) => sent.at(-1)),
    ["of the key", "of all clients at the nodes"].map(
      (place) =>
        `{"jsonrpc":"2.0","id":1,"error":{"code":-32006,"message":"Too many subscriptions ${place}"}}`,
    ),
  );
});
