/** Clients of HTTP/2 that do not keep to the rules, and the limits that hold them. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { constants, connect, type ClientHttp2Session } from "node:http2";
import { connect as connectTcp } from "node:net";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { connect as connectTls } from "node:tls";
import { createMetrics } from "../../../src/base/metrics.ts";
import { cert } from "../../certificate.ts";
import { read, send, serveTls } from "./client.ts";

const hello = (): { status: number; body: string } => ({ status: 200, body: "hello" });

async function closed(session: ClientHttp2Session): Promise<void> {
  if (!session.closed && !session.destroyed) await once(session, "close");
}

test("a client may run a hundred requests on a connection, and others wait", async (t) => {
  let running = 0;
  let most = 0;
  const { promise: enough, resolve } = Promise.withResolvers<void>();
  await using served = await serveTls(t, async () => {
    most = Math.max(most, ++running);
    if (running === 100) resolve();
    await enough;
    running--;
    return { status: 200 };
  });
  const session = await served.connect();
  if (session.remoteSettings.maxConcurrentStreams !== 100) await once(session, "remoteSettings");
  assert.equal(session.remoteSettings.maxConcurrentStreams, 100);
  const answers = await Promise.all(
    Array.from({ length: 150 }, () => send(session, { ":path": "/" })),
  );
  assert.ok(answers.every(({ status }) => status === 200));
  assert.equal(most, 100);
});

test("a client that resets requests again and again loses its connection", async (t) => {
  let started = 0;
  await using served = await serveTls(t, () => {
    started++;
    return Promise.withResolvers<undefined>().promise;
  });
  const session = await served.connect();
  let sent = 0;
  while (!session.destroyed && !session.closed && sent < 2_000) {
    for (let each = 0; each < 20; each++) {
      const stream = session.request({ ":path": "/" });
      stream.on("error", () => {});
      stream.close(constants.NGHTTP2_CANCEL);
      sent++;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await closed(session);
  assert.ok(started < 1_000, `${started} of ${sent} requests were started`);
  const other = await served.connect();
  assert.equal((await send(other, { ":path": "/healthz" })).status, 200);
});

test("a head that is too large is refused, and the gateway continues", async (t) => {
  await using served = await serveTls(t, hello);
  const session = await served.connect();
  const { status } = await send(session, { ":path": "/", "x-large": "x".repeat(20_000) });
  assert.equal(status, 431);
  const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, at) => [`x-${at}`, "y"]));
  assert.notEqual((await send(session, { ":path": "/", ...many })).status, 200);
  assert.equal((await send(await served.connect(), { ":path": "/" })).status, 200);
});

test("two hosts, two keys and tunnels are refused", async (t) => {
  await using served = await serveTls(t, hello);
  const session = await served.connect();
  const authority = `127.0.0.1:${served.port}`;
  const hosts = await send(session, {
    ":path": "/",
    ":authority": authority,
    host: "other.example",
  });
  assert.equal(hosts.status, 400);
  assert.match(hosts.body, /Host/);
  const same = await send(session, { ":path": "/", ":authority": authority, host: authority });
  assert.equal(same.status, 200);
  const keys = session.request([":path", "/", "authorization", "Bearer a", "authorization", "b"]);
  assert.equal((await read(keys)).status, 400);
  const tunnel = session.request({ ":method": "CONNECT", ":authority": "a.example:1" });
  assert.equal((await read(tunnel)).status, 501);
});

test("a connection without a request is closed after headersMs", async (t) => {
  // Also the time limit of the TLS handshake, which takes long on a busy machine.
  await using served = await serveTls(t, hello, { server: { headersMs: 1_000 } });
  const session = await served.connect();
  // A client that has chosen HTTP/2 and sends nothing at all.
  const silent = connectTls({
    port: served.port,
    host: "127.0.0.1",
    ca: cert,
    ALPNProtocols: ["h2"],
  });
  silent.resume().on("error", () => {});
  await Promise.all([closed(session), once(silent, "close")]);
});

// The answer 408 used to wait for the end of the handshake. HTTP/2 then wrote at the same time, and Node aborted.
test(
  "a TLS handshake that takes longer than headersMs is cut off",
  { timeout: 60_000 },
  async (t) => {
    await using served = await serveTls(t, hello, { server: { headersMs: 200 } });
    const connection = connectTcp(served.port, "127.0.0.1");
    connection.resume().on("error", () => {});
    // The client sends its first message and receives nothing, so it sends no other.
    const deaf = new Duplex({
      read: () => {},
      write: (bytes: Buffer, _, done) => void connection.write(bytes, () => done()),
    });
    const client = connectTls({ socket: deaf, ca: cert, ALPNProtocols: ["h2"] });
    client.on("error", () => {});
    t.after(() => {
      client.destroy();
      connection.destroy();
    });
    await once(connection, "close");
  },
);

test("an idle connection is closed after keepAliveMs", async (t) => {
  await using served = await serveTls(t, hello, { server: { keepAliveMs: 50 } });
  const session = await served.connect();
  assert.equal((await send(session, { ":path": "/" })).status, 200);
  await closed(session);
});

test("a body that pauses for bodyIdleMs is answered with 408", async (t) => {
  await using served = await serveTls(t, hello, {
    server: { bodyIdleMs: 100 },
    surface: { body: { bytes: 1_000, types: ["text/plain"] } },
  });
  const session = await served.connect();
  const stream = session.request({ ":path": "/", ":method": "POST", "content-type": "text/plain" });
  stream.write("half");
  // Bytes of other requests on the connection do not count for this one.
  const others = setInterval(() => {
    const other = session.closed ? undefined : session.request({ ":path": "/", ":method": "POST" });
    other?.on("error", () => {}).end("x".repeat(1_000));
  }, 10);
  const { status } = await read(stream);
  clearInterval(others);
  assert.equal(status, 408);
});

test("a client that reads nothing for bodyIdleMs is cut off", async (t) => {
  await using served = await serveTls(
    t,
    async (x) => {
      const sink = await x.stream(200, []);
      const piece = Buffer.alloc(64 * 1024);
      for (let sent = 0; sent < 100; sent++) sink.write(piece);
      await sink.end();
      return undefined;
    },
    { server: { bodyIdleMs: 100 } },
  );
  const session = await served.connect();
  const stream = session.request({ ":path": "/" });
  stream.on("error", () => {});
  stream.pause();
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once("close", resolve);
  await promise;
  assert.notEqual(stream.rstCode, 0);
  assert.equal(served.listener.running, 0);
});

test("bytes that are not HTTP/2 close their connection only", async (t) => {
  await using served = await serveTls(t, hello);
  const session = await served.connect();
  const garbage = connectTls({
    port: served.port,
    host: "127.0.0.1",
    ca: cert,
    ALPNProtocols: ["h2"],
  });
  garbage.resume().on("error", () => {});
  await once(garbage, "secureConnect");
  garbage.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  await once(garbage, "close");
  const plain = connectTcp(served.port, "127.0.0.1");
  plain.resume().on("error", () => {});
  plain.write("not TLS at all\r\n\r\n");
  await once(plain, "close");
  assert.equal((await send(session, { ":path": "/" })).status, 200);
});

test("the limit of connections counts those of HTTP/2", async (t) => {
  await using served = await serveTls(t, hello, { server: { connections: 1 } });
  const session = await served.connect();
  const second = connect(`https://127.0.0.1:${served.port}`, { ca: cert });
  second.on("error", () => {});
  const { promise, resolve } = Promise.withResolvers<void>();
  second.once("close", resolve);
  await promise;
  assert.equal((await send(session, { ":path": "/" })).status, 200);
});

test("a hundred unread answers on one connection count together, and others are served", async (t) => {
  const large = Buffer.alloc(1 << 20);
  const metrics = createMetrics();
  await using served = await serveTls(t, () => ({ status: 200, body: large }), {
    server: { unfinishedBodyBytes: 32 << 20, bodyIdleMs: 2_000 },
    metrics,
  });
  const session = await served.connect();
  let cut = 0;
  const streams = Array.from({ length: 100 }, () => {
    const stream = session.request({ ":path": "/" });
    stream.on("error", () => {});
    stream.on("close", () => cut++);
    stream.pause();
    return stream;
  });
  const held = (): number =>
    metrics.read("sluice_held_bytes").find(({ labels }) => labels["kind"] === "answer")?.value ?? 0;
  while (cut < 80) {
    assert.ok(held() <= 16 << 20);
    await new Promise(setImmediate);
  }
  const other = await served.connect();
  assert.equal((await send(other, { ":path": "/" })).status, 200);
  assert.equal((await send(other, { ":path": "/healthz" })).status, 200);
  // A stall of the window (no WINDOW_UPDATE arrives) ends like any reader that takes nothing.
  while (cut < streams.length) await new Promise((resolve) => setTimeout(resolve, 10));
  while (held() > 0) await new Promise(setImmediate);
});

test("a head that never ends (CONTINUATION flood) closes its connection only", async (t) => {
  await using served = await serveTls(t, hello);
  const socket = connectTls({ port: served.port, ca: cert, ALPNProtocols: ["h2"] });
  socket.on("error", () => {});
  await once(socket, "secureConnect");
  const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.length, 0, 3);
    head[3] = type;
    head[4] = flags;
    head.writeUInt32BE(stream, 5);
    return Buffer.concat([head, payload]);
  };
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  socket.write(frame(4, 0, 0, Buffer.alloc(0)));
  // HEADERS without END_HEADERS, and then CONTINUATION frames that each add a literal field (RFC 7541 section 6.2.2).
  const field = Buffer.concat([
    Buffer.of(0, 1),
    Buffer.from("x"),
    Buffer.of(100),
    Buffer.alloc(100, "y"),
  ]);
  const fields = Buffer.concat(Array<Buffer>(100).fill(field));
  socket.write(frame(1, 0, 1, Buffer.of(0x82, 0x87, 0x84)));
  const isClosed = new Promise((resolve) => socket.once("close", resolve));
  let sent = 0;
  while (!socket.destroyed && sent < 2_000) {
    socket.write(frame(9, 0, 1, fields));
    sent++;
    if (sent % 10 === 0) await new Promise(setImmediate);
  }
  assert.ok(sent < 2_000, `${sent} frames were accepted`);
  await isClosed;
  assert.equal((await send(await served.connect(), { ":path": "/" })).status, 200);
});
