/** The limits of a session: one request at a time, 256 requests, one hour, and no longer than its keyset. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { maxRequests } from "../../../../plugins/confidential/protocol/limits.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import type { OpenStream } from "./stream-client.ts";
import { openStream, unwrap } from "./stream-client.ts";
import { pipeline, startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";

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
  it("must come one at a time: a second one before the answer ends the session, and the first is charged", async () => {
    await using stream = await startStreamGateway();
    const held = gate();
    stream.worker.script = { pace: held.pass };
    using session = await stream.open();
    session.ask();
    await until(() => stream.worker.requests.length > 0);
    session.socket.send(requestFrame(session, 2));
    assert.deepEqual(await refusal(session), ["BAD_FRAME", 4400]);
    held.open();
    await until(async () => (await stream.charges()).length > 0);
    assert.equal((await stream.charges())[0]?.usedMilliCu, 7 * tokenMilli);
    assert.equal(stream.worker.requests.length, 1);
  });

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
    using session = await stream.open();
    session.ask();
    await session.answer();
    assert.equal((await stream.charges()).length, 1);
    assert.ok(!stream.gateway.lines.some((line) => line.includes("ejected")));
  });

  it(`are limited to ${maxRequests}, each of them charged`, async () => {
    await using stream = await startStreamGateway();
    stream.worker.script = { chunks: [] };
    using session = await stream.open();
    for (let asked = 0; asked < maxRequests; asked++) {
      session.ask();
      assert.equal((await session.answer()).done.rid, asked + 1);
    }
    session.socket.send(requestFrame(session, maxRequests + 1));
    assert.deepEqual(await refusal(session), ["LIMIT_EXCEEDED", 4413]);
    assert.equal((await stream.charges()).length, maxRequests);
    assert.equal(stream.worker.requests.length, maxRequests);
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

  it("is timed from its first frame, and not if it was completed or cancelled in time", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock, own: true });
    using session = await stream.open({ network: "classic", termination: "gateway" });
    session.socket.send(piece(session, 1));
    session.socket.send(unwrap(session.channel.seal("request", 1, Buffer.from("}"), true)));
    assert.equal((await session.answer()).final["finish_reason"], "error");
    await pass(50_000, clock, session);
    session.socket.send(piece(session, 2));
    await pass(10_000, clock, session);
    session.socket.send(unwrap(session.channel.seal("cancel", 2, new Uint8Array())));
    assert.equal((await session.answer()).final["finish_reason"], "cancel");
    await pass(60_000, clock, session);
    // Since a request must arrive at 64 KiB in 10 s, this one ends after 11 s.
    session.socket.send(piece(session, 3));
    await pass(10_000, clock, session);
    await pass(1_000, clock, session);
    assert.deepEqual(await refusal(session), ["TIMEOUT", 4408]);
  });
});

describe("the maximum duration of a session", () => {
  it("ends with its keyset", async () => {
    const clock = manualClock(Date.now());
    await using stream = await startStreamGateway({ clock });
    const notAfter = Math.floor(clock.now() / 1000) + 60;
    stream.worker.script = { keyset: (keyset) => ({ ...keyset, notAfter }) };
    using session = await stream.open();
    await pass(50_000, clock, session);
    session.ask();
    await session.answer();
    await pass(10_000, clock, session);
    assert.deepEqual(await refusal(session), ["LIMIT_EXCEEDED", 4413]);
  });

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

  async function heldBytes(stream: StreamGateway): Promise<number> {
    const text = await (await fetch(`${stream.gateway.adminUrl}/metrics`)).text();
    return Number(/^sluice_stream_unfinished_bytes (.+)$/m.exec(text)?.[1]);
  }

  it("limit the memory of a key's incomplete requests and release it", async () => {
    await using stream = await startStreamGateway({ own: true });
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
    await until(async () => (await heldBytes(stream)) === 98_304);
    using fourth = await begin();
    assert.deepEqual(await refusal(fourth), ["RATE_LIMITED", 4429]);
    const other = await stream.gateway.issue({ plan: "enterprise" });
    using neighbour = await openStream(await stream.wire(other.key), own);
    neighbour.ask();
    assert.equal((await neighbour.answer()).final["finish_reason"], "stop");
    for (const { socket } of sessions) socket.terminate();
    await until(async () => (await heldBytes(stream)) === 0);
    using fifth = await begin();
    await until(async () => (await heldBytes(stream)) === 32_768);
    assert.equal(fifth.socket.readyState, fifth.socket.OPEN);
  });
});
