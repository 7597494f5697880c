import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClientArchiveRead } from "sluice-gateway/services";
import { ArchiveReads } from "../../../../../plugins/ledger/ledger/archive/archive-reads.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { silentLog } from "../../../../test-log.ts";
import { until } from "../../until.ts";
import { ArchiveNode, value } from "./archive-node.ts";

const answerMs = 9_000;
const request = { hash: `0x${"11".repeat(32)}`, items: 1, params: '["0x11",[],null]' };

function setUp(...nodes: readonly ArchiveNode[]) {
  const clock = manualClock();
  const targets = nodes.map(({ url }) => ({ label: new URL(url).host, url: new URL(url) }));
  const reads = new ArchiveReads({
    upstream: {
      connectMs: 1000,
      headersMs: answerMs - 1000,
      idleMs: 1000,
      answerBytes: 1_000_000,
      methods: {},
    },
    pool: { targets: () => targets },
    clock,
    log: silentLog,
  });
  return {
    clock,
    reads,
    async open(): Promise<ClientArchiveRead> {
      const opened = await reads.open({ name: "archive_v1_storage" }, request);
      assert.ok(opened.kind === "open");
      return opened.subscription;
    },
    [Symbol.dispose]: () => reads.close(),
  };
}

test("a read ends if the node sends nothing for too long, but not while it is paused", async () => {
  await using node = await ArchiveNode.start();
  node.events = [];
  using archive = setUp(node);
  const read = await archive.open();
  const received: string[] = [];
  read.start({
    onNotification: (result) => void received.push(result),
    onEnd: () => void received.push("end"),
  });
  archive.clock.advance(answerMs - 2000);
  node.say(value("0x01"));
  await until(() => received.length === 1);
  read.pause();
  archive.clock.advance(2 * answerMs);
  read.resume();
  archive.clock.advance(answerMs - 2000);
  assert.deepEqual(received, [value("0x01")]);
  archive.clock.advance(3000);
  assert.deepEqual(received, [value("0x01"), "end"]);
  await until(() => node.reads.size === 0);
});

test("a read whose client does not read for 20 s ends, and frees its connection", async () => {
  await using node = await ArchiveNode.start();
  node.events = [];
  using archive = setUp(node);
  const slow = await archive.open();
  const ends: unknown[] = [];
  slow.start({ onNotification() {}, onEnd: (reason) => void ends.push(reason) });
  slow.pause();
  archive.clock.advance(15_000);
  // A client that reads at least sometimes keeps its read.
  slow.resume();
  slow.pause();
  archive.clock.advance(10_000);
  slow.pause();
  archive.clock.advance(9_000);
  assert.deepEqual(ends, []);
  assert.equal(node.reads.size, 1);
  archive.clock.advance(3_000);
  assert.deepEqual(ends, ["clientTooSlow"]);
  await until(() => node.reads.size === 0 && node.connections === 0);
  archive.clock.advance(60_000);
  assert.equal(ends.length, 1);
});

test("32 reads are open at the nodes at most, and a connection is used again", async () => {
  await using node = await ArchiveNode.start();
  node.events = [];
  using archive = setUp(node);
  const open: ClientArchiveRead[] = [];
  for (let n = 0; n < 32; n++) open.push(await archive.open());
  assert.equal(node.connections, 32);
  const refused = await archive.reads.open({ name: "archive_v1_storage" }, request);
  assert.equal(refused.kind, "full");
  open[0]?.start({ onNotification() {}, onEnd() {} });
  open[0]?.close();
  await archive.open();
  assert.equal(node.connections, 32);
});

test("no more nodes are asked after the client has left, and its connections are closed at once", async () => {
  await using first = await ArchiveNode.start();
  await using second = await ArchiveNode.start();
  await using third = await ArchiveNode.start();
  first.events = [];
  second.isSilent = true;
  using archive = setUp(first, second, third);
  const read = await archive.open();
  read.start({ onNotification: () => assert.fail("nothing is passed on"), onEnd() {} });
  first.say('{"event":"storageError","error":"unknown block"}');
  await until(() => second.calls.length === 1);
  read.close();
  await until(() => second.connections === 0);
  // The same if the client leaves while the read is being opened.
  const leaving = new AbortController();
  first.isSilent = true;
  const asked = first.calls.length;
  const opened = archive.reads.open({ name: "archive_v1_storage" }, request, leaving.signal);
  await until(() => first.calls.length === asked + 1);
  leaving.abort();
  assert.equal((await opened).kind, "failed");
  await until(() => first.reads.size === 0);
  const late = await archive.reads.open({ name: "archive_v1_storage" }, request, leaving.signal);
  assert.equal(late.kind, "failed");
  assert.equal(first.calls.length, asked + 1);
  assert.deepEqual(third.calls, []);
});
