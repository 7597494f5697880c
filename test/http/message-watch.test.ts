/** Unfinished WebSocket messages (finding 4). */
import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { WebSocket } from "ws";
import type { Connection, SurfaceHooks } from "../../src/plugin.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { serve } from "../pipeline/harness.ts";

interface Bench extends AsyncDisposable {
  readonly clock: ManualClock;
  open(): Promise<Peer>;
}

interface Peer {
  readonly client: WebSocket;
  readonly connection: Connection;
  readonly closed: Promise<number>;
  /** Sends a ping and waits for its pong, so that everything sent before has been read. */
  readonly ping: () => Promise<void>;
}

async function bench(
  unfinishedBodyBytes = 1 << 20,
  metrics = createMetrics(),
  onMessage = (): void => {},
): Promise<Bench> {
  const clock = manualClock();
  let opened: ((connection: Connection) => void) | undefined;
  const surface: SurfaceHooks = {
    async answer(x) {
      const connection = await x.accept({ protocol: undefined, messageBytes: 1 << 20 });
      const closed = Promise.withResolvers<void>();
      connection.onClose = () => closed.resolve();
      connection.onMessage = (data) => {
        onMessage();
        connection.send(String(data.length));
      };
      opened?.(connection);
      await closed.promise;
      return undefined;
    },
  };
  const served = await serve([{ path: "/socket", websocket: true, surface }], {
    clock,
    metrics,
    server: { unfinishedBodyBytes },
  });
  const clients: WebSocket[] = [];
  return {
    clock,
    async open() {
      const accepted = new Promise<Connection>((resolve) => (opened = resolve));
      const client = new WebSocket(`ws://127.0.0.1:${served.port}/socket`);
      clients.push(client);
      client.on("error", () => {});
      const closed = once(client, "close").then(([code]) => Number(code));
      await once(client, "open");
      const ping = async (): Promise<void> => {
        client.ping("0123456789");
        await once(client, "pong");
      };
      return { client, connection: await accepted, closed, ping };
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.terminate();
      await served[Symbol.asyncDispose]();
    },
  };
}

test("a message does not count as unfinished when its surface receives it", async () => {
  const metrics = createMetrics();
  const bytes: number[] = [];
  const read = (): void => {
    const samples = metrics.read("sluice_held_bytes");
    bytes.push(samples.find(({ labels }) => labels["kind"] === "message")?.value ?? -1);
  };
  await using gateway = await bench(1 << 20, metrics, read);
  const { client, ping } = await gateway.open();
  client.send("x".repeat(1000), { fin: false });
  await ping();
  gateway.clock.advance(1_000);
  read();
  client.send("x");
  await once(client, "message");
  assert.ok(Number(bytes[0]) >= 1000, String(bytes[0]));
  assert.equal(bytes[1], 0);
});

test("a message that arrives too slowly closes its connection, also with pings between its fragments", async () => {
  await using gateway = await bench();
  const slow = await gateway.open();
  const idle = await gateway.open();
  slow.client.send("x".repeat(100), { fin: false });
  for (let second = 1; second <= 10; second++) {
    await slow.ping();
    await idle.ping();
    gateway.clock.advance(1_000);
    assert.equal(slow.client.readyState, WebSocket.OPEN, `after ${second} s`);
    slow.client.send("x", { fin: false });
  }
  await slow.ping();
  gateway.clock.advance(2_000);
  assert.equal(await slow.closed, 1008);
  // A client without an unfinished message may stay connected for any time.
  idle.client.send("hello");
  assert.equal(String((await once(idle.client, "message"))[0]), "5");
});

test("a message that gains 64 KiB in every 10 seconds may take its time", async () => {
  await using gateway = await bench();
  const { client, ping } = await gateway.open();
  for (let piece = 0; piece < 8; piece++) {
    client.send(Buffer.alloc(64 * 1024), { fin: false });
    await ping();
    gateway.clock.advance(9_000);
  }
  client.send("", { fin: true });
  assert.equal(String((await once(client, "message"))[0]), String(8 * 64 * 1024));
});

test("a message does not become too slow while it waits for its surface", async () => {
  await using gateway = await bench();
  const { client, connection } = await gateway.open();
  connection.pause();
  client.send("hello");
  gateway.clock.advance(15_000);
  connection.resume();
  assert.equal(String((await once(client, "message"))[0]), "5");
});

test("when unfinished messages together hold too much, the newest connections are closed", async () => {
  await using gateway = await bench(500 * 1024);
  const peers: Peer[] = [];
  for (let at = 0; at < 3; at++) {
    const peer = await gateway.open();
    peers.push(peer);
    peer.client.send(Buffer.alloc(200 * 1024), { fin: false });
    await peer.ping();
  }
  const idle = await gateway.open();
  gateway.clock.advance(1_000);
  assert.equal(await peers[2]?.closed, 1013);
  const states = [peers[0], peers[1], idle].map((peer) => peer?.client.readyState);
  assert.deepEqual(states, [WebSocket.OPEN, WebSocket.OPEN, WebSocket.OPEN]);
});
