/** Tests of the state machine of the link to a worker's enclave, which may have no listener until it is trusted. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { describe, it, type TestContext } from "node:test";
import { WebSocketServer, type WebSocket } from "ws";
import { workerSubprotocol } from "../../../../plugins/confidential/protocol/hello.ts";
import type {
  EnclaveLink,
  LinkListener,
} from "../../../../plugins/confidential/confidential-relay/link.ts";
import { connectWorker } from "../../../../plugins/confidential/enclave-workers/socket.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";
import { until } from "./wait.ts";
import { silentLog } from "../../../test-log.ts";

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
