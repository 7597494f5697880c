/** Tests of the state machine of a client's operation: results, payments and clients that do not read. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { OperationListener } from "sluice-gateway/services";
import { Operation } from "../../../../plugins/ledger/ledger-ws/follow-operation.ts";
import { hashAt } from "../ledger/follow/follow-node.ts";

/** An operation on descendants, whose results and payments the test scripts. */
function setUp(maxHeld = Infinity) {
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
  const { operation, node, sent, done } = setUp();
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
  const { operation, node, sent, done, client, held } = setUp(1_000_000);
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
  const { node, sent, client } = setUp();
  client.isWritten = false;
  node.onResult('["0x01"]');
  node.onEnd({ kind: "done" });
  await settled();
  assert.deepEqual(sent, ['{"event":"operationInaccessible","operationId":"op"}']);
});
