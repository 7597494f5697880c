/** The limits of a session: one request at a time, one minute per request, and no longer than its keyset. The link to a worker. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it, type TestContext } from "node:test";
import { createServer, type AddressInfo } from "node:net";
import { WebSocketServer, type WebSocket } from "ws";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { openStream, unwrap, openWire, type OpenStream } from "./stream-client.ts";
import { pipeline, startStreamGateway, tokenMilli, pageOrigin } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";
import { chunkOf, eventOf } from "../../inference/networks/chat-events.ts";
import { workerSubprotocol } from "../../../../plugins/confidential/protocol/hello.ts";
import type {
  EnclaveLink,
  LinkListener,
} from "../../../../plugins/confidential/confidential-relay/link.ts";
import { connectWorker } from "../../../../plugins/confidential/enclave-workers/socket.ts";
import { silentLog } from "../../../test-log.ts";

/** A complete request that the enclave cannot decrypt. */
function requestFrame(session: OpenStream, rid: number): Buffer {
  const frame = Buffer.alloc(64);
  frame.set([1, 1, 1, 0]);
  frame.writeUInt32BE(rid, 4);
  frame.writeUInt32BE(session.channel.watch.nextSeq("c2s"), 12);
  return frame;
}

/** Reads up to the error frame. Resolves to the frame and the close code. */
async function refusal(session: OpenStream): Promise<unknown[]> {
  let message = await session.next();
  while (!("text" in message) || !message.text.includes('"error"')) message = await session.next();
  const { code } = JSON.parse(message.text) as { code: string };
  return [code, await session.closed];
}

/** Advances the clock in steps so short that the connection can answer its pings. */
async function pass(ms: number, clock: ManualClock, session: OpenStream): Promise<void> {
  for (let waited = 0; waited < ms; waited += 10_000) {
    session.socket.ping();
    await once(session.socket, "pong");
    clock.advance(Math.min(10_000, ms - waited));
  }
}

describe("requests of a session", () => {
  it("must wait for done: a second one between final and done ends the session, and the first is charged", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    stream.worker.script = {
      async signReport(message, sign) {
        await held.pass();
        return sign(message);
      },
    };
    using session = await stream.open();
    session.ask();
    for (let index = 0; index < 3; index++)
      unwrap(session.channel.open(await session.nextBinary()));
    session.ask();
    assert.deepEqual(await refusal(session), ["BAD_FRAME", 4400]);
    held.open();
    await until(async () => (await stream.charges()).length > 0);
    assert.equal((await stream.charges())[0]?.usedMilliCu, 7 * tokenMilli);
    assert.equal(stream.worker.requests.length, 1);
  });

  it("that the enclave cannot decrypt end only their own session, and their reservation is released", async () => {
    await using stream = await startStreamGateway();
    for (let times = 0; times < 5; times++) {
      using session = await stream.open();
      session.socket.send(requestFrame(session, 1));
      assert.deepEqual(await refusal(session), ["BAD_FRAME", 4400]);
    }
    await stream.chat();
    assert.equal((await stream.charges()).length, 1);
    assert.ok(!stream.gateway.lines.some((line) => line.includes("ejected")));
  });
});

describe("a request that never becomes complete", () => {
  function piece(session: OpenStream, rid: number): Uint8Array {
    return unwrap(session.channel.seal("request", rid, Buffer.from("{"), false));
  }

  it("ends its session after one minute, however often a frame arrives, and is no longer forwarded", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock });
    using session = await stream.open();
    for (let seconds = 0; seconds < 50; seconds += 10) {
      session.socket.send(piece(session, 1));
      await pass(10_000, clock, session);
    }
    session.socket.send(piece(session, 1));
    await pass(10_000, clock, session);
    assert.deepEqual(await refusal(session), ["TIMEOUT", 4408]);
    assert.equal((await stream.charges()).length, 0);
  });
});

describe("the maximum duration of a session", () => {
  it("waits until a running request is answered and charged", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock });
    const notAfter = Math.floor(clock.now() / 1000) + 60;
    const held = gate();
    stream.worker.script = { keyset: (keyset) => ({ ...keyset, notAfter }), pace: held.pass };
    using session = await stream.open();
    session.ask();
    await until(() => stream.worker.requests.length > 0);
    await pass(60_000, clock, session);
    held.open();
    const { deltas, done } = await session.answer();
    assert.equal(deltas.length, 2);
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.deepEqual(await refusal(session), ["LIMIT_EXCEEDED", 4413]);
    assert.equal((await stream.charges()).length, 1);
  });
});

describe("requests that this gateway decrypts itself", () => {
  const own = { network: "classic", termination: "gateway" } as const;

  it("limit the memory of a key's incomplete requests and release it", async () => {
    await using stream = await startStreamGateway({ own: true });
    const heldBytes = () => stream.gauge("sluice_stream_unfinished_bytes");
    const limited = pipeline.replace("{ origins:", "{ maxUnfinishedBytesPerKey: 98304, origins:");
    await stream.gateway.write(limited);
    assert.deepEqual(await stream.gateway.gateway.reloader.reload("test"), []);
    const begin = async (): Promise<OpenStream> => {
      const session = await stream.open(own);
      const piece = Buffer.alloc(32_768, 0x20);
      session.socket.send(unwrap(session.channel.seal("request", 1, piece, false)));
      return session;
    };
    const sessions = [await begin(), await begin(), await begin()];
    await until(async () => (await heldBytes()) === 98_304);
    using fourth = await begin();
    assert.deepEqual(await refusal(fourth), ["RATE_LIMITED", 4429]);
    const other = await stream.gateway.issue({ plan: "enterprise" });
    using neighbour = await openStream(await stream.wire(other.key), own);
    neighbour.ask();
    assert.equal((await neighbour.answer()).final["finish_reason"], "stop");
    for (const { socket } of sessions) socket.terminate();
    await until(async () => (await heldBytes()) === 0);
    using fifth = await begin();
    await until(async () => (await heldBytes()) === 32_768);
    assert.equal(fifth.socket.readyState, fifth.socket.OPEN);
  });
});

describe("a gateway that stops", () => {
  it("closes idle sessions immediately, and busy ones when their request is answered and charged", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    using idle = await stream.open();
    using busy = await stream.open();
    stream.worker.script = { pace: held.pass };
    busy.ask();
    await until(() => stream.worker.requests.length > 0);
    const stopped = stream.gateway.gateway.stop();
    assert.equal(await idle.closed, 1013);
    held.open();
    const { deltas, done } = await busy.answer();
    assert.equal(deltas.length, 2);
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
    assert.equal(await busy.closed, 1013);
    await stopped;
    assert.deepEqual(
      (await stream.charges()).map(({ usedMilliCu }) => usedMilliCu),
      [7 * tokenMilli],
    );
  });

  it("accepts no further request in a session that is ending", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    using session = await stream.open();
    stream.worker.script = { pace: held.pass };
    session.ask();
    await until(() => stream.worker.requests.length > 0);
    const stopped = stream.gateway.gateway.stop();
    held.open();
    await session.answer();
    session.ask();
    assert.equal(await session.closed, 1013);
    await stopped;
    assert.equal(stream.worker.requests.length, 1);
  });
});

describe("a reload of pipeline.yaml", () => {
  const elsewhere = "https://elsewhere.example";
  const changed = pipeline.replace("${ORIGIN}", elsewhere);

  async function answered(session: OpenStream): Promise<void> {
    session.ask();
    assert.equal((await session.answer()).final["finish_reason"], "stop");
  }

  it("drops no request and no session, and applies to new sessions", async () => {
    await using stream = await startStreamGateway();
    const { gateway, worker, url } = stream;
    const held = gate();
    using session = await stream.open();
    worker.script = { pace: held.pass };
    session.ask();
    await until(() => worker.requests.length > 0);
    await gateway.write(changed);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    held.open();
    assert.equal((await session.answer()).deltas.length, 2);
    await answered(session);

    const headers = { authorization: `Bearer ${gateway.key}` };
    await assert.rejects(openWire(url, { headers, origin: pageOrigin }), /403/);
    using next = await openStream(await openWire(url, { headers, origin: elsewhere }));
    await answered(next);
    assert.equal((await stream.charges()).length, 3);
    assert.equal(await stream.gauge("sluice_stream_sessions"), 2);
  });

  it("also keeps sessions in the gateway's own enclave running", async () => {
    const own = { network: "classic", termination: "gateway" } as const;
    await using stream = await startStreamGateway({ own: true });
    const { gateway, plain } = stream;
    using session = await stream.open(own);
    const holding = plain.hold();
    session.ask();
    const held = await holding;
    held.begin();
    await gateway.write(changed);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    await held.push(eventOf(chunkOf({ content: "Hello" }, { finishReason: "stop" })));
    await held.push(eventOf("[DONE]"));
    held.end();
    assert.equal((await session.answer()).done.usage.unverified_reason, "simulated");
    await answered(session);
    using next = await stream.open(own);
    await answered(next);
    assert.equal((await stream.charges()).length, 3);
  });

  it("that removes the network lets its sessions finish and refuses new ones", async () => {
    await using stream = await startStreamGateway();
    const { gateway, worker } = stream;
    using session = await stream.open();
    await gateway.write(pipeline.replace(/^ {2}alpha: .*\n/m, ""));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    await answered(session);
    await assert.rejects(stream.open(), /NETWORK_NOT_AVAILABLE/);
    assert.equal(worker.requests.length, 1);
  });
});

/** More than the kernel buffers of one connection can hold. */
const kernelBytes = 16 * 1024 * 1024;
const frameBytes = 65_536;
const frames = 1_000;

interface Connected {
  readonly clock: ManualClock;
  readonly link: EnclaveLink;
  readonly worker: WebSocket;
}

async function connect(t: TestContext): Promise<Connected> {
  const server = new WebSocketServer({
    port: 0,
    host: "127.0.0.1",
    perMessageDeflate: false,
    handleProtocols: () => workerSubprotocol,
  });
  t.after(() => {
    for (const client of server.clients) client.terminate();
    server.close();
  });
  await once(server, "listening");
  // A listening TCP server has an address of this form.
  const { port } = server.address() as AddressInfo;
  const clock = manualClock(Date.now());
  const connected = once(server, "connection");
  const url = `ws://127.0.0.1:${port}`;
  const link = await connectWorker({ url, headers: {}, connectMs: 1_000, clock, log: silentLog });
  assert.ok(link !== undefined);
  t.after(() => link.close());
  const [worker] = (await connected) as [WebSocket];
  return { clock, link, worker };
}

function listener(over: Partial<LinkListener>): LinkListener {
  return { onText() {}, onBinary() {}, onDrain() {}, onEnd() {}, ...over };
}

function numbered(number: number): Buffer {
  const frame = Buffer.alloc(frameBytes);
  frame.writeUInt32BE(number);
  return frame;
}

describe("a worker that sends while there is no listener", () => {
  it("is paused, and a new listener gets every frame in order", async (t) => {
    const { link, worker } = await connect(t);
    for (let number = 0; number < frames; number++) worker.send(numbered(number));
    const other = await connect(t);
    for (let times = 0; times < 200; times++) {
      const received = new Promise((resolve) => {
        other.link.listener = listener({ onText: resolve });
      });
      other.worker.send("anything");
      await received;
    }
    const total = frames * frameBytes;
    assert.ok(worker.bufferedAmount > total - kernelBytes, "the gateway took what nobody reads");
    const numbers: number[] = [];
    link.listener = listener({ onBinary: (frame) => void numbers.push(frame.readUInt32BE()) });
    await until(() => numbers.length === frames);
    assert.deepEqual(
      numbers,
      Array.from({ length: frames }, (_, number) => number),
    );
  });
});

describe("a connection to a worker that cannot be established", () => {
  it("fails at its deadline, even if the worker's answer arrives byte by byte", async (t) => {
    const server = createServer((socket) => {
      socket.on("error", () => {});
      // The head of an answer that never ends.
      socket.once("data", () => socket.write("HTTP/1.1 101 Switching Protocols\r\nx: "));
    });
    t.after(() => server.close());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const clock = manualClock();
    const begun = once(server, "connection");
    // Far more than the test takes: only the clock can end it.
    const connectMs = 60_000;
    const link = connectWorker({
      url: `ws://127.0.0.1:${port}`,
      headers: {},
      connectMs,
      clock,
      log: silentLog,
    });
    await begun;
    clock.advance(connectMs);
    assert.equal(await link, undefined);
  });

  for (const [title, url, headers] of [
    ["an invalid address", "ws:///", {}],
    ["an address with a fragment", "ws://127.0.0.1:1/#x", {}],
    ["a header that HTTP does not allow", "ws://127.0.0.1:1/", { authorization: "a\r\nb: c" }],
  ] as const) {
    it(`fails for ${title}, and does not throw`, async () => {
      const clock = manualClock();
      assert.equal(
        await connectWorker({ url, headers, connectMs: 1_000, clock, log: silentLog }),
        undefined,
      );
    });
  }
});
