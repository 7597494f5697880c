import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createTlsServer } from "node:https";
import net from "node:net";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { cert as certificate, key as certificateKey } from "../../../certificate.ts";
import { closed, listening } from "../../../e2e/rpc-node.ts";
import { whenStable } from "../../../http/forwarding-gateway.ts";
import { busyWorkers, failureOf, openNetwork, resultOf, type Opened } from "./network-harness.ts";
import { raw } from "./worker-scripts.ts";
import { chunkOf, eventOf } from "./chat-events.ts";
import { startWorker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };
const mebibyte = 1024 * 1024;

const stream = [
  eventOf(chunkOf({ content: "Hello" })),
  eventOf(chunkOf({ content: " world" })),
  eventOf(chunkOf({}, { finishReason: "stop" })),
  eventOf("[DONE]"),
].join("");
const listing = JSON.stringify({ data: [{ id: "Test/Model-1" }] });

for (const [coding, encode] of [
  ["identity", (text: string) => Buffer.from(text)],
  ["gzip", gzipSync],
  ["X-GZIP", gzipSync],
  ["deflate", deflateSync],
  ["br", brotliCompressSync],
  ["zstd", zstdCompressSync],
] as const) {
  test(`an answer with content coding ${coding} is read, streamed and whole`, inTime, async () => {
    const headers = { "content-encoding": coding };
    const document = JSON.stringify({ choices: [{ message: { content: "Hello" } }] });
    await using worker = await startWorker();
    worker.script(raw(200, headers, [encode(stream)]), raw(200, headers, [encode(document)]));
    await using opened = await openNetwork(worker.url);
    const asked = opened.ask();
    await resultOf(asked);
    assert.equal(asked.text, "Hello world");
    const ending = await opened.ask({ streamed: false }).ending;
    assert.ok(ending.kind === "ended");
    assert.equal(ending.message?.content, "Hello");
  });
}

test(
  "an encoded stream that is cut short is broken after the part that arrived",
  inTime,
  async () => {
    const bytes = gzipSync(stream.replace("data: [DONE]\n\n", ""));
    const headers = { "content-encoding": "gzip" };
    await using worker = await startWorker({
      otherwise: raw(200, headers, [bytes.subarray(0, bytes.length - 9)]),
    });
    await using opened = await openNetwork(worker.url);
    assert.equal((await failureOf(opened.ask())).failure, "broken");
  },
);

/** The limit is so high that no stream of these tests ends because of its length. */
const muchOutput = { maxOutputTokens: 1_000_000 };

/** Returns a stream of this many events of 64 KiB, with the content coding. */
function manyEvents(events: number): string {
  return eventOf(chunkOf({ content: "x".repeat(64 * 1024) })).repeat(events);
}

test(
  "a reader that pauses stops the worker, and nothing is lost when it resumes",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url, muchOutput);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    exchange.begin();
    const arrived = asked.arrived();
    await exchange.push(eventOf(chunkOf({ content: "first" })));
    await arrived;
    asked.call.pause();
    // Written in pieces, like tokens.
    const events = 512;
    const pushed = exchange.push(manyEvents(events));
    const waiting = await whenStable(() => exchange.waitingBytes);
    assert.ok(waiting > 16 * mebibyte, `${waiting} bytes wait in the worker`);
    assert.ok(asked.choices.length <= 2, "and nothing is reported");
    // The silence is the reader's and not the worker's.
    opened.seen.clock.advance(60_000);
    asked.call.resume();
    opened.seen.clock.advance(1_000);
    assert.equal(await pushed, "taken");
    await exchange.push(stream);
    exchange.end();
    await resultOf(asked);
    assert.equal(asked.choices.length, 1 + events + 3);
  },
);

test("a reader that pauses an encoded stream stops the worker, too", inTime, async () => {
  const events = 512;
  const bytes = gzipSync(manyEvents(events) + stream);
  await using worker = await startWorker({
    otherwise: raw(200, { "content-encoding": "gzip" }, [bytes]),
  });
  await using opened = await openNetwork(worker.url, muchOutput);
  const asked = opened.ask();
  await asked.arrived();
  asked.call.pause();
  const reported = await whenStable(() => asked.choices.length);
  assert.ok(reported < events / 2, `${reported} events reported`);
  asked.call.resume();
  await resultOf(asked);
  assert.equal(asked.choices.length, events + 3);
});

test(
  "a connection is used again after [DONE], after a refusal and after a whole answer",
  inTime,
  async () => {
    await using worker = await connectionsOf([
      chunked(200, [stream]),
      withLength(400, "{}"),
      withLength(200, JSON.stringify({ choices: [{ message: {} }] })),
      chunked(200, [stream]),
    ]);
    await using opened = await openNetwork(worker.url);
    await resultOf(opened.ask());
    await failureOf(opened.ask());
    await resultOf(opened.ask({ streamed: false }));
    await resultOf(opened.ask());
    assert.deepEqual(worker.requests, [1, 1, 1, 1]);
  },
);

test("a stream paused as it ends leaves its connection usable", inTime, async () => {
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const body = `${Buffer.byteLength(stream).toString(16)}\r\n${stream}\r\n`;
  const rest = Promise.withResolvers<void>();
  await using worker = await connectionsOf([
    async (socket) => {
      socket.write(head + body);
      await rest.promise;
      socket.write("0\r\n\r\n");
    },
    chunked(200, [stream]),
  ]);
  await using opened = await openNetwork(worker.url);
  await resultOf(opened.ask({ pauses: true }));
  rest.resolve();
  await whenStable(() => worker.open);
  await resultOf(opened.ask());
  assert.deepEqual(worker.requests, [1, 1]);
});

test("an answer that is broken does not take a later request down with it", inTime, async () => {
  const empty = withLength(200, "{}");
  await using worker = await connectionsOf([empty, withLength(400, "")]);
  worker.workers("w0", "w1");
  await using opened = await openNetwork(worker.url, { statusUrl: `${worker.url}/status` });
  assert.equal((await failureOf(opened.ask({ streamed: false }))).failure, "rejected");
});

for (const how of ["destroy", "resetAndDestroy"] as const) {
  const what = how === "destroy" ? "closes" : "resets";
  test(
    `a request that the server has read is not sent to it again when it ${what} the connection`,
    inTime,
    async () => {
      await using worker = await connectionsOf([
        chunked(200, [stream]),
        (socket) => void socket[how](),
        chunked(200, [stream]),
      ]);
      await using opened = await openNetwork(worker.url);
      await resultOf(opened.ask());
      assert.equal((await failureOf(opened.ask({ streamed: false }))).failure, "unavailable");
      assert.deepEqual(worker.requests, [1, 1]);
    },
  );
}

test(
  "a request that could not be written to a kept connection is sent again on a new one",
  inTime,
  async () => {
    const sockets: net.Socket[] = [];
    const remember: Reply = (socket) => {
      sockets.push(socket);
      chunked(200, [stream])(socket);
    };
    await using worker = await connectionsOf([remember, chunked(200, [stream])]);
    await using opened = await openNetwork(worker.url);
    await resultOf(opened.ask());
    // The reset is in the kernel before the gateway's event loop can see it.
    sockets[0]?.resetAndDestroy();
    const result = await resultOf(opened.ask());
    assert.equal(result.finishReason, "stop");
    assert.deepEqual(worker.requests, [1, 2]);
    assert.ok(opened.network.ready);
  },
);

test("an idle connection is closed before the server closes it", inTime, async () => {
  await using worker = await connectionsOf([chunked(200, [stream])]);
  await using opened = await openNetwork(worker.url);
  await resultOf(opened.ask());
  opened.seen.clock.advance(5_000);
  await worker.deserted();
});

test("all chunks of one read are passed on together", inTime, async () => {
  const events = [1, 2, 3].map((n) => eventOf(chunkOf({ content: `${n}` })));
  await using worker = await connectionsOf([chunked(200, [...events, stream])]);
  await using opened = await openNetwork(worker.url);
  const asked = opened.ask();
  await resultOf(asked);
  assert.equal(asked.text, "123Hello world");
  assert.equal(asked.arrivals, 1);
});

test(
  "a refusal with an endless body is cut, and the request is retried meanwhile",
  inTime,
  async () => {
    await using worker = await connectionsOf([
      (socket) => {
        socket.write("HTTP/1.1 500 No\r\nContent-Length: 99999999\r\n\r\n");
        socket.write("x".repeat(mebibyte));
      },
      chunked(200, [stream]),
    ]);
    worker.workers("w0", "w1");
    await using opened = await openNetwork(worker.url, { statusUrl: `${worker.url}/status` });
    await resultOf(opened.ask());
    assert.deepEqual(worker.requests, [1, 2]);
    await whenStable(() => worker.open);
    assert.equal(worker.open, 1);
  },
);

test(
  "closing a network completes running answers and then closes their connections",
  inTime,
  async () => {
    await using worker = await startWorker();
    const opened = await openNetwork(worker.url);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    exchange.begin();
    let isClosed = false;
    const closing = opened.network.close().then(() => (isClosed = true));
    await exchange.push(stream);
    assert.equal(isClosed, false);
    exchange.end();
    await resultOf(asked);
    await closing;
    assert.deepEqual(busyWorkers(opened.network), []);
  },
);

test("closing a network leaves neither an idle connection nor a timer", inTime, async () => {
  await using worker = await connectionsOf([chunked(200, [stream])]);
  const opened = await openNetwork(worker.url);
  await resultOf(opened.ask());
  assert.notEqual(opened.seen.ticking(), 0);
  await opened.network.close();
  await worker.deserted();
  assert.equal(opened.seen.ticking(), 0);
});

test("a worker is used over TLS only if its certificate is trusted", inTime, async () => {
  const server = createTlsServer({ key: certificateKey, cert: certificate }, (req, res) => {
    if (req.method === "GET") res.end(listing);
    else res.end(manyEvents(8) + stream);
  });
  const url = (await listening(server)).replace("http:", "https:");
  const plain = await startWorker();
  plain.documents.set("/status", { workers: [{ id: "w", model: "Test/Model-1", url }] });
  const ask = async (opened: Opened): Promise<number> => {
    const asked = opened.ask();
    await resultOf(asked);
    return asked.choices.length;
  };
  const before = getCACertificates("default");
  const open = (): Promise<Opened> =>
    openNetwork(plain.url, { statusUrl: `${plain.url}/status`, origins: [url], ...muchOutput });
  {
    await using opened = await open();
    assert.equal((await failureOf(opened.ask())).failure, "unavailable");
  }
  setDefaultCACertificates([...before, certificate]);
  try {
    await using opened = await open();
    assert.equal(await ask(opened), 11);
    assert.equal(await ask(opened), 11);
  } finally {
    setDefaultCACertificates(before);
    await closed(server);
    await plain[Symbol.asyncDispose]();
  }
});

type Reply = (socket: net.Socket) => unknown;

function withLength(status: number, body: string): Reply {
  const head = `HTTP/1.1 ${status} X\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return (socket) => socket.write(head + body);
}

function chunked(status: number, pieces: readonly string[]): Reply {
  const chunks = pieces.map((piece) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`);
  const head = `HTTP/1.1 ${status} X\r\nTransfer-Encoding: chunked\r\n\r\n`;
  return (socket) => socket.write(`${head}${chunks.join("")}0\r\n\r\n`);
}

interface RawWorker extends AsyncDisposable {
  readonly url: string;
  /** Number of the connection (from 1) of each chat request. */
  readonly requests: readonly number[];
  /** Connections that have carried a chat request and are open. */
  readonly open: number;
  deserted(): Promise<void>;
  /** Models that are listed at `/status`. */
  workers(...ids: string[]): void;
}

/**
 * A server that answers the chat requests with these bytes, one after the other. The answers are small, so each arrives
 * in one piece.
 */
async function connectionsOf(replies: readonly Reply[]): Promise<RawWorker> {
  const requests: number[] = [];
  const chats = new Set<net.Socket>();
  let numbered = 0;
  let status = "{}";
  const server = net.createServer((socket) => {
    let number = 0;
    socket.on("error", () => {});
    socket.on("close", () => chats.delete(socket));
    socket.on("data", (bytes) => {
      const text = bytes.toString();
      if (text.startsWith("GET")) {
        withLength(200, text.startsWith("GET /status") ? status : listing)(socket);
        return;
      }
      if (number === 0) number = ++numbered;
      chats.add(socket);
      void replies[requests.push(number) - 1]?.(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // The server listens on TCP.
  const { port } = server.address() as net.AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    get open() {
      return chats.size;
    },
    async deserted() {
      for (const socket of chats) await new Promise((resolve) => socket.once("close", resolve));
    },
    workers(...ids) {
      status = JSON.stringify({ workers: ids.map((id) => ({ id, model: "Test/Model-1" })) });
    },
    async [Symbol.asyncDispose]() {
      for (const socket of chats) socket.destroy();
      server.close();
      await Promise.resolve();
    },
  };
}

test("the headers of a request do not replace those of the network", inTime, async () => {
  await using worker = await startWorker({ otherwise: raw(200, {}, [Buffer.from(stream)]) });
  await using opened = await openNetwork(worker.url, { headers: { "X-Fixed": "operator" } });
  const headers = ["x-tenant", "blue", "x-fixed", "step", "content-type", "text/plain"];
  await resultOf(opened.ask({ headers }));
  const sent = worker.received[0]?.headers;
  const seen = [sent?.["x-tenant"], sent?.["x-fixed"], sent?.["content-type"]];
  assert.deepEqual(seen, ["blue", "operator", "application/json"]);
});
