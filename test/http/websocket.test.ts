/** WebSocket routes: steps, the handshake, messages in both directions, backpressure, and every way to end. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { it } from "node:test";
import { WebSocket } from "ws";
import type { LiveExchange } from "../../src/pipeline/run/exchange.ts";
import type { Connection, Exchange, Outcome, SurfaceHooks } from "../../src/plugin.ts";
import { refuse } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { ask, serve, type Served, type TestStep } from "../pipeline/harness.ts";
import { rawClient } from "./forwarding-gateway.ts";

/** A surface that passes its connection to the test and ends with it. */
function socketSurface(
  use: (connection: Connection, x: Exchange) => void,
  messageBytes = 1024,
): SurfaceHooks {
  return {
    async answer(x) {
      const connection = await x.accept({ protocol: "test.v1", messageBytes });
      const closed = Promise.withResolvers<void>();
      connection.onClose = () => closed.resolve();
      use(connection, x);
      await closed.promise;
      return undefined;
    },
  };
}

const echo = socketSurface((connection) => {
  connection.onMessage = (data, isText) => {
    connection.send(isText ? data.toString() : data);
  };
});

function outcomes(): { readonly step: TestStep; readonly next: () => Promise<Outcome> } {
  const seen: Outcome[] = [];
  let waiting: ((outcome: Outcome) => void) | undefined;
  return {
    step: {
      name: "outcomes",
      settled(_, outcome) {
        if (waiting === undefined) seen.push(outcome);
        else waiting(outcome);
        waiting = undefined;
      },
    },
    next: () =>
      new Promise((resolve) => {
        const outcome = seen.shift();
        if (outcome === undefined) waiting = resolve;
        else resolve(outcome);
      }),
  };
}

async function open(
  { port }: Served,
  path = "/socket",
  protocols: string[] = ["test.v1"],
): Promise<WebSocket> {
  const client = new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols);
  await once(client, "open");
  return client;
}

async function refusal({ port }: Served, path = "/socket"): Promise<number | undefined> {
  const client = new WebSocket(`ws://127.0.0.1:${port}${path}`, ["test.v1"]);
  client.on("error", () => {});
  const [, response] = await once(client, "unexpected-response");
  const { statusCode } = response as { statusCode?: number };
  client.terminate();
  return statusCode;
}

const route = (surface: SurfaceHooks, steps: readonly TestStep[] = []) =>
  ({ path: "/socket", websocket: true, surface, steps }) as const;

it("an upgrade runs down its route, is accepted with the fields of its steps, and carries messages", async () => {
  const { step, next } = outcomes();
  const marks: TestStep = {
    name: "marks",
    responseHeaders: (_, head) => head.set("x-mark", `seen ${head.status}`),
  };
  await using served = await serve([route(echo, [step, marks])]);
  const client = new WebSocket(`ws://127.0.0.1:${served.port}/socket`, ["other", "test.v1"]);
  const [[upgraded]] = await Promise.all([once(client, "upgrade"), once(client, "open")]);
  assert.equal((upgraded as { headers: Record<string, string> }).headers["x-mark"], "seen 101");
  assert.equal(client.protocol, "test.v1");
  client.send("text");
  assert.deepEqual(await once(client, "message"), [Buffer.from("text"), false]);
  client.send(Buffer.of(1, 2, 3));
  assert.deepEqual(await once(client, "message"), [Buffer.of(1, 2, 3), true]);
  client.close(1000);
  assert.equal(await next(), "complete");
  assert.deepEqual(served.errors, []);
});

it("a step refuses an upgrade with an HTTP reply, and the connection ends", async () => {
  const { step, next } = outcomes();
  const gate: TestStep = { name: "gate", requestHeaders: () => refuse("GATEWAY_UNAUTHORIZED") };
  await using served = await serve([route(echo, [step, gate])]);
  assert.equal(await refusal(served), 401);
  assert.equal(await next(), "replied");
});

it("a plain request to a WebSocket route is refused after the steps with a request to upgrade", async () => {
  await using served = await serve([route(echo)]);
  const answer = await ask(served, "/socket");
  assert.equal(answer.status, 426);
  assert.equal(answer.headers["upgrade"], "websocket");
  assert.match(answer.body, /"this route accepts only WebSocket connections"/);
});

it("a plain request to a WebSocket route learns the methods of the other routes of the path", async () => {
  const post = { path: "/socket", methods: ["POST"], surface: { answer: () => ({ status: 200 }) } };
  await using served = await serve([route(echo), post]);
  const answer = await ask(served, "/socket");
  assert.equal(answer.status, 426);
  assert.match(answer.body, /only WebSocket connections; requests over HTTP use POST/);
});

it("an upgrade on another route, to another protocol or in another version is treated like an ordinary request", async () => {
  const plain: SurfaceHooks = { answer: () => ({ status: 200, body: "plain" }) };
  await using served = await serve([{ path: "/plain", surface: plain }, route(echo)]);
  assert.equal(await refusal(served, "/plain"), 200);
  const wrong: readonly Readonly<Record<string, string>>[] = [
    { upgrade: "h2c" },
    { upgrade: "websocket", "sec-websocket-version": "12" },
    { upgrade: "websocket", "sec-websocket-version": "13" },
    { upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "short" },
  ];
  for (const headers of wrong) {
    const answer = await ask(served, "/socket", {
      headers: { connection: "upgrade", ...headers },
    });
    assert.equal(answer.status, 426, JSON.stringify(headers));
  }
});

it("an upgrade after a request that is not answered yet is treated like an ordinary request", async () => {
  const asked = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const slow: SurfaceHooks = {
    async answer() {
      asked.resolve();
      await answer.promise;
      return { status: 200, body: "slow" };
    },
  };
  await using served = await serve([{ path: "/slow", surface: slow }, route(echo)]);
  using client = rawClient(served.port);
  const upgrade =
    "GET /socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n" +
    `sec-websocket-version: 13\r\nsec-websocket-key: ${"A".repeat(22)}==\r\n\r\n`;
  // The fast path leaves HEAD, and thus the whole connection, to node:http.
  client.send(`HEAD /slow HTTP/1.1\r\nhost: x\r\n\r\n${upgrade}`);
  await asked.promise;
  answer.resolve();
  const received = await client.until("only WebSocket connections");
  assert.match(received, /^HTTP\/1\.1 200 .*HTTP\/1\.1 426 /s);
  assert.deepEqual(served.errors, []);
});

it("a message above the limit closes with 1009", async () => {
  await using served = await serve([route(echo)]);
  const client = await open(served);
  client.send(Buffer.alloc(1025));
  const [code] = await once(client, "close");
  assert.equal(code, 1009);
});

it("compression is not accepted, and a compressed frame closes with 1002", async () => {
  await using served = await serve([route(echo)]);
  const client = new WebSocket(`ws://127.0.0.1:${served.port}/socket`, ["test.v1"], {
    perMessageDeflate: true,
  });
  await once(client, "open");
  assert.equal(client.extensions, "");
  const { _socket: socket } = client as unknown as { readonly _socket: Socket };
  // A frame with the bit RSV1, and a mask of zeros.
  socket.write(Buffer.of(0xc2, 0x81, 0, 0, 0, 0, 0));
  assert.equal((await once(client, "close"))[0], 1002);
});

it("a message in more than 256 fragments closes with 1008", async () => {
  await using served = await serve([route(echo)]);
  const client = await open(served);
  const send = (count: number): void => {
    for (let at = 1; at <= count; at++) client.send("x", { fin: at === count });
  };
  send(256);
  const [answer] = (await once(client, "message")) as [Buffer];
  assert.equal(answer.length, 256);
  send(257);
  const [code] = await Promise.race([once(client, "close"), once(client, "message")]);
  assert.equal(code, 1008);
  client.terminate();
});

it("a message in segments of one byte closes with 1008", async () => {
  const surface = socketSurface(() => {}, 1 << 20);
  await using served = await serve([route(surface)], { clock: manualClock() });
  const client = await open(served);
  client.on("error", () => {});
  const closed = once(client, "close");
  // The package `ws` does not write single bytes, but its socket does.
  const { _socket: socket } = client as unknown as { readonly _socket: Socket };
  socket.setNoDelay(true);
  // The head of a message of 60,000 bytes, with a mask of zeros.
  socket.write(Buffer.of(0x82, 0xfe, 60_000 >> 8, 60_000 & 255, 0, 0, 0, 0));
  for (let at = 0; at < 10_000 && client.readyState === client.OPEN; at++) {
    socket.write("x");
    await new Promise(setImmediate);
  }
  client.terminate();
  assert.equal((await closed)[0], 1008);
});

it("a client that sends pings and does not read the answers is disconnected", async () => {
  const { step, next } = outcomes();
  await using served = await serve([route(echo, [step])]);
  const client = await open(served);
  client.on("error", () => {});
  client.pause();
  const ended = next();
  const data = Buffer.alloc(125);
  let isOver = false;
  void ended.then(() => (isOver = true));
  while (!isOver) {
    for (let count = 0; count < 1000; count++) client.ping(data);
    await new Promise(setImmediate);
  }
  assert.equal(await ended, "clientLeft");
});

it("a frame that breaks RFC 6455 closes with 1002", async () => {
  await using served = await serve([route(echo)]);
  const socket = connect(served.port, "127.0.0.1");
  socket.write(
    "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
  );
  const [head] = await once(socket, "data");
  assert.match(String(head), /^HTTP\/1\.1 101 /);
  // A text frame without a mask.
  socket.write(Buffer.of(0x81, 0x01, 0x61));
  const [close] = (await once(socket, "data")) as [Buffer];
  assert.deepEqual([...close.subarray(0, 4)], [0x88, 0x02, 0x03, 0xea]);
  socket.destroy();
});

it("messages that arrive before there is a listener are kept", async () => {
  const arrived = Promise.withResolvers<Connection>();
  await using served = await serve([route(socketSurface((c) => arrived.resolve(c)))]);
  const client = await open(served);
  client.send("one");
  client.send("two");
  const connection = await arrived.promise;
  const seen: string[] = [];
  const both = Promise.withResolvers<void>();
  connection.onMessage = (data) => {
    seen.push(data.toString());
    if (seen.length === 2) both.resolve();
  };
  await both.promise;
  assert.deepEqual(seen, ["one", "two"]);
  client.close();
});

it("if a client does not read, send returns false, and onDrain is called when there is room again", async () => {
  const arrived = Promise.withResolvers<Connection>();
  const surface = socketSurface((c) => arrived.resolve(c));
  await using served = await serve([route(surface)]);
  const client = await open(served);
  client.pause();
  const connection = await arrived.promise;
  const drained = Promise.withResolvers<void>();
  connection.onDrain = () => drained.resolve();
  const piece = Buffer.alloc(64 * 1024);
  let sent = 0;
  while (connection.send(piece)) sent++;
  assert.ok(sent < 1_000, "it never said stop");
  client.resume();
  await drained.promise;
  client.close();
});

it("a client that reads nothing for too long is disconnected", async () => {
  const { step, next } = outcomes();
  const surface = socketSurface((connection) => {
    const fill = (): void => {
      while (connection.send(Buffer.alloc(64 * 1024)));
    };
    connection.onDrain = fill;
    fill();
  });
  await using served = await serve([route(surface, [step])], { server: { bodyIdleMs: 50 } });
  const client = await open(served);
  client.pause();
  assert.equal(await next(), "timedOut");
  client.terminate();
});

it("the surface is notified when the client disappears", async () => {
  const { step, next } = outcomes();
  let code: number | undefined;
  let aborted = false;
  const surface: SurfaceHooks = {
    async answer(x) {
      const connection = await x.accept({ protocol: undefined, messageBytes: 10 });
      const closed = Promise.withResolvers<void>();
      x.onAbort = { aborted: () => (aborted = true) };
      connection.onClose = (with_) => {
        code = with_;
        closed.resolve();
      };
      await closed.promise;
      return undefined;
    },
  };
  await using served = await serve([route(surface, [step])]);
  const client = new WebSocket(`ws://127.0.0.1:${served.port}/socket`);
  await once(client, "open");
  client.terminate();
  assert.equal(await next(), "clientLeft");
  assert.equal(code, 1006);
  assert.equal(aborted, true);
});

it("the surface closes with its own code and reason", async () => {
  const { step, next } = outcomes();
  const surface = socketSurface((connection) => connection.close(4402, "no credit"));
  await using served = await serve([route(surface, [step])]);
  const client = await open(served);
  const [code, reason] = await once(client, "close");
  assert.equal(code, 4402);
  assert.equal(String(reason), "no credit");
  assert.equal(await next(), "complete");
});

it("a drain notifies open connections and closes the listener after they have closed", async () => {
  const surface = socketSurface((connection) => {
    connection.onGoAway = () => connection.close(1001, "going away");
  });
  const served = await serve([route(surface)]);
  const client = await open(served);
  const closed = once(client, "close");
  await served[Symbol.asyncDispose]();
  assert.equal((await closed)[0], 1001);
});

it("an open connection keeps its generation through a reload", async () => {
  await using served = await serve([route(echo)]);
  const client = await open(served);
  const old = await served.reload([]);
  client.send("still here");
  assert.deepEqual(await once(client, "message"), [Buffer.from("still here"), false]);
  assert.equal(old.number < served.generation.number, true);
  assert.equal(await refusal(served), 404);
  client.close();
});

async function handshake({ port }: Served, fields: readonly string[]): Promise<string> {
  const lines = [
    "GET /socket HTTP/1.1",
    "Host: h",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ...fields,
  ];
  using client = rawClient(port);
  client.send(`${lines.join("\r\n")}\r\n\r\n`);
  return await client.closed();
}

// Finding 3.
it("an offer of subprotocols that breaks RFC 6455 gets 400 and ends its exchange", async () => {
  const { step, next } = outcomes();
  await using served = await serve([route(echo, [step])]);
  for (const offered of ["test.v1, test.v1", "test.v1,,", ", test.v1", "", "test v1", "test;v1"]) {
    const text = await handshake(served, [`Sec-WebSocket-Protocol: ${offered}`]);
    assert.match(text, /^HTTP\/1\.1 400 .*"error_code":"GATEWAY_INVALID_PARAMS"/s, offered);
    assert.equal(await next(), "replied");
    assert.equal(served.listener.running, 0);
  }
});

it("an upgrade that the WebSocket library refuses gets 400 and ends its exchange", async () => {
  const { step, next } = outcomes();
  const spoils: TestStep = {
    name: "spoils",
    responseHeaders(x) {
      // Only a plugin that breaks the contract reaches this, because the core has checked what the client sent.
      (x.request.headers as Record<string, string>)["sec-websocket-protocol"] = "test.v1,,";
    },
  };
  await using served = await serve([route(echo, [step, spoils])]);
  assert.match(await handshake(served, []), /^HTTP\/1\.1 400 .*"GATEWAY_INVALID_PARAMS"/s);
  assert.equal(await next(), "replied");
  assert.equal(served.listener.running, 0);
  assert.deepEqual(served.errors, []);
});

it("a client that leaves while its upgrade is being accepted ends the exchange", async () => {
  const { step, next } = outcomes();
  const leaves: TestStep = {
    name: "leaves",
    responseHeaders: (x) => void ((x as LiveExchange).arrival.req.socket as Socket).destroy(),
  };
  await using served = await serve([route(echo, [step, leaves])]);
  assert.equal(await handshake(served, []), "");
  assert.equal(await next(), "clientLeft");
  assert.equal(served.listener.running, 0);
  assert.deepEqual(served.errors, []);
});

it("a field that HTTP does not allow is never written into the answer to an upgrade", async () => {
  const { step, next } = outcomes();
  const splits: TestStep = {
    name: "splits",
    responseHeaders(_, head) {
      if (head.status === 101) head.set("x-mark", "a\r\nset-cookie: b");
    },
  };
  await using served = await serve([route(echo, [step, splits])]);
  const text = await handshake(served, []);
  assert.match(text, /^HTTP\/1\.1 500 /);
  assert.doesNotMatch(text, /set-cookie/);
  assert.equal(await next(), "replied");
});

it("an upgrade that still waits in a step when the drain ends is cut off", async () => {
  const { step, next } = outcomes();
  const reached = Promise.withResolvers<void>();
  const waits: TestStep = {
    name: "waits",
    requestHeaders() {
      reached.resolve();
      return new Promise(() => {});
    },
  };
  await using served = await serve([route(echo, [step, waits])]);
  const cut = handshake(served, []);
  await reached.promise;
  await served.listener.close(10);
  assert.equal(await cut, "");
  assert.equal(await next(), "clientLeft");
});

it("messages run the `message` hooks of the steps, one of which may refuse them", async () => {
  let left = 1;
  const limit: TestStep = {
    name: "limit",
    message: () => (left-- > 0 ? undefined : refuse("GATEWAY_RATE_LIMITED")),
  };
  const surface = socketSurface((connection, x) => {
    connection.onMessage = (data) => {
      void Promise.resolve(x.admit()).then((reply) =>
        connection.send(reply?.code === undefined ? data : Buffer.from(reply.code), true),
      );
    };
  });
  await using served = await serve([route(surface, [limit])]);
  const client = await open(served);
  for (const expected of ["hello", "GATEWAY_RATE_LIMITED"]) {
    client.send("hello");
    const [data, isBinary] = (await once(client, "message")) as [Buffer, boolean];
    assert.deepEqual([data.toString(), isBinary], [expected, false]);
  }
  client.close();
  await once(client, "close");
});
