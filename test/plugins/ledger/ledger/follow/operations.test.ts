/** Tests of the state machine of the operations of a follow, with a manual clock and a node that the test answers for. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AnswerCache } from "../../../../../plugins/ledger/ledger/cache.ts";
import type { FeedAnswer } from "../../../../../plugins/ledger/ledger/feed/feed-connection.ts";
import type { Block } from "../../../../../plugins/ledger/ledger/follow/block-tree.ts";
import { Operations } from "../../../../../plugins/ledger/ledger/follow/operations.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { hashAt } from "./follow-node.ts";

interface Sent {
  readonly method: string;
  readonly params: string;
  readonly answer: (answer: FeedAnswer) => void;
}

function setUp() {
  const clock = manualClock();
  const sent: Sent[] = [];
  const block: Block = {
    hash: hashAt(1),
    event: "",
    parent: "",
    runtime: undefined,
    holders: 0,
    isLive: true,
  };
  const operations = new Operations({
    clock,
    answerMs: 1000,
    cache: new AnswerCache(1 << 20),
    sharing: true,
    send: (method, params, answer) => void sent.push({ method, params, answer }),
    release: (each) => void each.holders--,
  });
  const ends: string[] = [];
  const results: string[] = [];
  const start = (parameters: string, isBehind = false) =>
    operations.start(
      block,
      { kind: "call", hash: block.hash, function: "f", parameters },
      {
        isBehind,
        onResult: (value) => void results.push(value),
        onEnd: ({ kind }) => void ends.push(kind),
      },
    );
  const started = (id: string): FeedAnswer => ({
    kind: "result",
    text: `{"result":"started","operationId":"${id}"}`,
  });
  return { clock, sent, block, operations, ends, results, start, started };
}

const limitReached: FeedAnswer = { kind: "result", text: '{"result":"limitReached"}' };

test("an operation that the node does not end in time is inaccessible, and is stopped at the node", () => {
  const { clock, sent, block, ends, start, started } = setUp();
  start("0x01");
  sent[0]!.answer(started("a"));
  assert.equal(block.holders, 0, "the node has started, so the block may be unpinned");
  clock.advance(999);
  assert.deepEqual(ends, []);
  clock.advance(1);
  assert.deepEqual(ends, ["inaccessible"]);
  assert.equal(sent[1]!.method, "chainHead_v1_stopOperation");
});

test("an operation that the node never accepts is sent again until its time is over", () => {
  const { clock, sent, block, ends, start } = setUp();
  start("0x01");
  for (let attempt = 0; attempt < 4; attempt++) {
    sent[attempt]!.answer(limitReached);
    clock.advance(200);
    assert.equal(sent.length, attempt + 2);
  }
  sent[4]!.answer(limitReached);
  clock.advance(1000);
  assert.deepEqual(ends, ["inaccessible"]);
  assert.equal(block.holders, 0);
});

test("sixteen operations run at the node, 1024 wait, and further ones are refused", () => {
  const { sent, block, operations, ends, start, started } = setUp();
  for (let n = 0; n < 16 + 1024; n++) assert.ok(start(`0x${n}`));
  assert.equal(sent.length, 16);
  assert.equal(start("0xff"), undefined);
  for (const [n, { answer }] of sent.slice(0, 16).entries()) answer(started(`op${n}`));
  operations.receive("operationCallDone", '{"operationId":"op3","output":"0x"}');
  assert.equal(sent.length, 17);
  assert.equal(block.holders, 1 + 1023);
  operations.close();
  assert.equal(ends.filter((end) => end === "inaccessible").length, 16 + 1024 - 1);
});

test("answers and events of a node that lies end the operation, and nothing else", () => {
  const { sent, operations, ends, start, started } = setUp();
  const lies: FeedAnswer[] = [
    { kind: "error", text: '{"code":-32801,"message":"not pinned"}' },
    { kind: "error", text: "7" },
  ];
  for (const [n, lie] of lies.entries()) {
    start(`0x0${n}`);
    sent[n]!.answer(lie);
  }
  assert.deepEqual(ends, ["inaccessible", "error"]);
  start("0x05");
  sent[2]!.answer(started("a"));
  for (const event of ["null", "{}", '{"operationId":7}', '{"operationId":"b"}']) {
    assert.equal(operations.receive("operationCallDone", event), false);
  }
  assert.equal(operations.receive("operationBodyDone", '{"operationId":"a","value":[]}'), true);
  assert.deepEqual(ends.slice(2), ["inaccessible"]);
});
