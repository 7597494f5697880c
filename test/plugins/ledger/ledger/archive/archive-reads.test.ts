/** Archive reads of the service `ledger`: what ends them, and what becomes of their connections. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ClientArchiveRead } from "sluice-gateway/services";
import { until } from "../../until.ts";
import { startLedger } from "../start-ledger.ts";
import { ArchiveNode, value } from "./archive-node.ts";

const answerMs = 9_000;
/** The connection of the probes, which a node always has. */
const probing = 1;
const request = { hash: `0x${"11".repeat(32)}`, items: 1, params: '["0x11",[],null]' };

async function setUp(...nodes: readonly ArchiveNode[]) {
  const urls = nodes.map(({ url }) => url);
  const limits = { connectMs: 1000, headersMs: answerMs - 1000, idleMs: 1000, probeMs: 3_600_000 };
  const started = await startLedger(urls, limits);
  await started.probed;
  const { archive } = started.ledger;
  const method = archive.methods.get("archive_v1_storage");
  assert.ok(method !== undefined);
  const begin = (signal?: AbortSignal) => archive.open(method, request, signal);
  return Object.assign(started, {
    begin,
    async open(): Promise<ClientArchiveRead> {
      const opened = await begin();
      assert.ok(opened.kind === "open");
      return opened.subscription;
    },
  });
}

test("a read ends if the node sends nothing for too long, but not while it is paused", async () => {
  await using node = await ArchiveNode.start();
  node.events = [];
  await using archive = await setUp(node);
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
  await using archive = await setUp(node);
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
  await until(() => node.reads.size === 0 && node.connections === probing);
  archive.clock.advance(60_000);
  assert.equal(ends.length, 1);
});

test("the connection of a read that has ended is used again", async () => {
  await using node = await ArchiveNode.start();
  node.events = [];
  await using archive = await setUp(node);
  const read = await archive.open();
  await archive.open();
  const { connections } = node;
  read.start({ onNotification() {}, onEnd() {} });
  read.close();
  await archive.open();
  assert.equal(node.connections, connections);
});

test("no more nodes are asked after the client has left, and its connections are closed at once", async () => {
  await using first = await ArchiveNode.start();
  await using second = await ArchiveNode.start();
  await using third = await ArchiveNode.start();
  first.events = [];
  second.isSilent = true;
  await using archive = await setUp(first, second, third);
  const read = await archive.open();
  read.start({ onNotification: () => assert.fail("nothing is passed on"), onEnd() {} });
  first.say('{"event":"storageError","error":"unknown block"}');
  await until(() => second.calls.length === 1);
  read.close();
  await until(() => second.connections === probing);
  // The same if the client leaves while the read is being opened.
  const leaving = new AbortController();
  first.isSilent = true;
  const asked = first.calls.length;
  const opened = archive.begin(leaving.signal);
  await until(() => first.calls.length === asked + 1);
  leaving.abort();
  assert.equal((await opened).kind, "failed");
  await until(() => first.reads.size === 0);
  const late = await archive.begin(leaving.signal);
  assert.equal(late.kind, "failed");
  assert.equal(first.calls.length, asked + 1);
  assert.deepEqual(third.calls, []);
});
