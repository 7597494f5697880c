/** Whatever somebody sends: one error frame, a close code of the protocol, and nothing charged. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import * as fc from "fast-check";
import { closeCodes, isStreamCode } from "../../../src/confidential/fault.ts";
import { writeHello } from "../../../src/confidential/hello.ts";
import { helloOf, openStream, type Wire } from "./stream-client.ts";
import { startStreamGateway, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";

type Sent = string | Uint8Array;

describe("what strangers send", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(async () => {
    assert.deepEqual(await stream.charges(), []);
    assert.deepEqual(stream.worker.requests, []);
    // Whoever comes next is served.
    using session = await stream.open();
    session.ask();
    await session.answer();
    const metrics = async (): Promise<string> =>
      (await fetch(`${stream.gateway.adminUrl}/metrics`)).text();
    session.socket.close();
    await until(async () => /^sluice_stream_sessions 0$/m.test(await metrics()));
    const broken = stream.gateway.lines.filter((line) => line.includes("broke"));
    await stream[Symbol.asyncDispose]();
    assert.deepEqual(broken, []);
  });

  /** The last message is the one error frame; the code of the close goes with it. */
  async function refused(wire: Wire, messages: readonly Sent[]): Promise<void> {
    for (const message of messages) wire.socket.send(message);
    let frame = await wire.nextText();
    if (frame["type"] === "attestation") frame = await wire.nextText();
    const { type, code, error, ...others } = frame;
    assert.deepEqual([type, typeof error, others], ["error", "string", {}]);
    assert.ok(isStreamCode(code), String(code));
    assert.equal(await wire.closed, closeCodes[code]);
    await assert.rejects(wire.next(), /closed before/);
  }

  const bytes = fc.oneof(fc.uint8Array({ maxLength: 64 }), fc.uint8Array({ maxLength: 4_096 }));
  /** Of the right form up to somewhere. */
  const framed = fc
    .record({
      type: fc.oneof(fc.constant(1), fc.integer({ min: 0, max: 5 })),
      flags: fc.oneof(fc.constant(1), fc.integer({ min: 0, max: 3 })),
      rid: fc.oneof(fc.constant(1), fc.integer({ min: 0, max: 3 })),
      seq: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3 })),
      rest: fc.uint8Array({ maxLength: 300, minLength: 10 }),
    })
    .map(({ type, flags, rid, seq, rest }) => {
      const frame = Buffer.alloc(16 + rest.length);
      frame.set([1, type, flags, 0]);
      frame.writeUInt32BE(rid, 4);
      frame.writeUInt32BE(seq, 12);
      frame.set(rest, 16);
      return frame;
    });
  const names = ["type", "v", "suite", "network", "model", "epk", "nonce", "pad", "evidence"];
  const hellos = fc
    .dictionary(fc.constantFrom(...names), fc.jsonValue())
    .map((members) => JSON.stringify({ type: "hello", ...members }));
  const text = fc.oneof(fc.string({ maxLength: 300 }), fc.json(), hellos);

  it("as a first message", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(text, bytes, framed), async (first: Sent) => {
        using wire = await stream.wire();
        await refused(wire, [first]);
      }),
      { numRuns: 200 },
    );
  });

  it("as a hello that was whole, but for one piece of it", async () => {
    const { hello } = await helloOf();
    const whole = Buffer.from(writeHello(hello)).toString();
    const at = fc.integer({ min: 0, max: whole.length - 1 });
    await fc.assert(
      fc.asyncProperty(
        at,
        fc.nat(12),
        fc.string({ maxLength: 8 }),
        async (from, length, instead) => {
          const altered = whole.slice(0, from) + instead + whole.slice(from + length);
          fc.pre(altered !== whole);
          using wire = await stream.wire();
          wire.socket.send(altered);
          const frame = await wire.nextText();
          // Such as another nonce, which is as good.
          if (frame["type"] === "attestation") return;
          assert.ok(frame["type"] === "error" && isStreamCode(frame["code"]));
          assert.equal(await wire.closed, closeCodes[frame["code"]]);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("behind the handshake, at once or later", async () => {
    const later = fc.array(fc.oneof(text, bytes, framed), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(later, fc.boolean(), async (messages: readonly Sent[], isEarly) => {
        using wire = await stream.wire();
        // A frame that nobody refuses is one that the enclave could have got from a client: it ends with the text.
        const sent = [...messages, "end"];
        if (!isEarly) {
          using session = await openStream(wire);
          return await refused(session, sent);
        }
        const { hello } = await helloOf();
        wire.socket.send(writeHello(hello), { binary: false });
        return await refused(wire, sent);
      }),
      { numRuns: 200 },
    );
  });
});
