/** Backpressure in both directions and for both terminations: nothing is buffered without limit. */
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, it, type TestContext } from "node:test";
import { requestPieces } from "../../../../plugins/confidential/protocol/channel.ts";
import { maxRequestBytes } from "../../../../plugins/confidential/protocol/limits.ts";
import { LiveConnection } from "../../../../src/http/websocket-connection.ts";
import { chunkOf, eventOf, usageChunkOf } from "../../inference/networks/chat-events.ts";
import { model } from "./enclave-worker.ts";
import { unwrap, type OpenStream } from "./stream-client.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";
import { gate, until } from "./wait.ts";

/** More than the kernel buffers of two connections can hold: 4 MiB to send and 4 MiB to receive. */
const kernelBytes = 32 * 1024 * 1024;
const chunkChars = 60_000;
const chunks = 1_200;

/** Numbered chunks, so that a wrong order is detected. */
const numbered = (count: number): { readonly content: string }[] =>
  Array.from({ length: count }, (_, at) => ({ content: String(at).padEnd(chunkChars, ".") }));

const numbersOf = (deltas: readonly Readonly<Record<string, unknown>>[]): number[] =>
  deltas.map(({ content }) => Number.parseInt(String(content), 10));

describe("a client that stops reading", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway({ own: true });
  });
  after(() => stream[Symbol.asyncDispose]());
  beforeEach(() => {
    stream.worker.script = {};
  });

  /** Completes another request, so that everything that can pass in the meantime has passed. */
  async function meanwhile(): Promise<void> {
    for (let times = 0; times < 3; times++) {
      await stream.chat();
    }
  }

  it("pauses its worker; when it reads again, every frame arrives in order", async () => {
    const { worker } = stream;
    using session = await stream.open({ pad: 0 });
    session.socket.pause();
    worker.script = { chunks: numbered(chunks) };
    session.ask();
    const total = chunks * chunkChars;
    await until(() => worker.waitingBytes > total - kernelBytes);
    worker.script = {};
    await meanwhile();
    assert.ok(worker.waitingBytes > total - kernelBytes, "the gateway took what nobody reads");
    session.socket.resume();
    const { deltas, done } = await session.answer();
    assert.deepEqual(
      numbersOf(deltas),
      numbered(chunks).map((_, at) => at),
    );
    assert.equal(done.usage.unverified_reason, "simulated");
  });

  it("pauses the model of the gateway's own enclave, and the report still arrives last", async () => {
    const holding = stream.plain.hold();
    using session = await stream.open({
      network: "classic",
      termination: "gateway",
      pad: 0,
      maxOutputTokens: 10_000_000,
    });
    session.ask();
    const held = await holding;
    session.socket.pause();
    held.begin();
    const written = numbered(800).map((delta) => held.push(eventOf(chunkOf(delta))));
    await until(() => held.waitingBytes > 0);
    await meanwhile();
    assert.ok(held.waitingBytes > 800 * chunkChars - kernelBytes, "the gateway read on");
    session.socket.resume();
    await Promise.all(written);
    await held.push(eventOf(chunkOf({}, { finishReason: "stop" })));
    const usage = { prompt_tokens: 4, completion_tokens: 800, total_tokens: 804 };
    await held.push(eventOf(usageChunkOf(usage)));
    await held.push(eventOf("[DONE]"));
    held.end();
    const { deltas, done } = await session.answer();
    const said = deltas.map(({ content }) => content).join("");
    assert.equal(
      said,
      numbered(800)
        .map(({ content }) => content)
        .join(""),
    );
    assert.equal(done.usage.unverified_reason, "simulated");
    assert.equal(done.usage.completion_tokens, 800);
  });
});

describe("a worker that stops reading", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(() => stream[Symbol.asyncDispose]());

  function longest(session: OpenStream): Uint8Array[] {
    const request = { model, messages: [{ role: "user", content: "" }] };
    const room = maxRequestBytes - JSON.stringify(request).length;
    request.messages[0]!.content = "x".repeat(room);
    const pieces = requestPieces(Buffer.from(JSON.stringify(request)));
    return pieces.map((piece, at) =>
      unwrap(session.channel.seal("request", 1, piece, at === pieces.length - 1)),
    );
  }

  it("pauses a client that sends 8 MiB; when it reads again, it gets the complete request", async (t: TestContext) => {
    const listening = gate();
    stream.worker.script = { listens: listening.pass };
    using session = await stream.open({ pad: 0 });
    const paused = t.mock.method(LiveConnection.prototype, "pause");
    const frames = longest(session);
    // The last frame is sent later. Without it, only the worker's backpressure makes the gateway stop reading.
    for (const frame of frames.slice(0, -1)) session.socket.send(frame);
    await until(() => paused.mock.callCount() > 0);
    session.socket.send(frames.at(-1)!);
    listening.open();
    const { final, done } = await session.answer();
    assert.equal(final["finish_reason"], "stop");
    assert.equal(done.usage.unverified_reason, "simulated");
    const received = JSON.stringify(stream.worker.requests.at(-1));
    assert.equal(received.length, maxRequestBytes);
  });
});
