/**
 * The encrypted stream of a whole gateway: whatever an unknown client sends, it gets one error frame and a close code
 * of the protocol. Nothing is charged, nothing reaches the worker, and the opened sessions are closed.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { closeCodes, isStreamCode } from "../../../plugins/confidential/protocol/fault.ts";
import { writeHello } from "../../../plugins/confidential/protocol/hello.ts";
import {
  helloOf,
  openStream,
  type Wire,
} from "../../plugins/confidential/confidential-relay/stream-client.ts";
import {
  startStreamGateway,
  type StreamGateway,
} from "../../plugins/confidential/confidential-relay/stream-gateway.ts";
import { gaugesAreZero } from "../gauges.ts";
import type { FuzzTarget, Random } from "../target.ts";

type Sent = string | Uint8Array;

const bytes = fc.oneof(fc.uint8Array({ maxLength: 64 }), fc.uint8Array({ maxLength: 4_096 }));
/** Frames whose header is valid up to some field. */
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

export const relaySessions: FuzzTarget = {
  name: "relay-sessions",
  async run(random) {
    await using stream = await startStreamGateway();
    const first = fc.oneof<fc.Arbitrary<Sent>[]>(text, bytes, framed);
    await random.check(
      "the first message of an unknown client is refused",
      first,
      150,
      async (sent) => {
        using wire = await stream.wire();
        await refused(wire, [sent]);
      },
    );
    await refusesAlteredHellos(random, stream);
    const later = fc.array(first, { minLength: 1, maxLength: 4 });
    await random.check(
      "messages after the handshake, or sent before its answer, are refused",
      fc.tuple(later, fc.boolean()),
      150,
      async ([messages, isEarly]) => {
        using wire = await stream.wire();
        // A frame that is not refused may have come from a client. The text after it ends the session.
        const sent = [...messages, "end"];
        if (!isEarly) {
          using session = await openStream(wire);
          return await refused(session, sent);
        }
        const { hello } = await helloOf();
        wire.socket.send(writeHello(hello), { binary: false });
        return await refused(wire, sent);
      },
    );
    assert.deepEqual(await stream.charges(), []);
    assert.deepEqual(stream.worker.requests, []);
    {
      using session = await stream.open();
      session.ask();
      await session.answer();
    }
    assert.deepEqual(
      stream.gateway.lines.filter((line) => line.includes("broke")),
      [],
    );
    await gaugesAreZero(stream.gateway.adminUrl);
  },
};

async function refusesAlteredHellos(random: Random, stream: StreamGateway): Promise<void> {
  const { hello } = await helloOf();
  const whole = Buffer.from(writeHello(hello)).toString();
  const changes = fc.tuple(fc.nat(whole.length - 1), fc.nat(12), fc.string({ maxLength: 8 }));
  const title = "a hello with one piece replaced is answered, or refused with a code";
  await random.check(title, changes, 80, async ([from, length, instead]) => {
    const altered = whole.slice(0, from) + instead + whole.slice(from + length);
    fc.pre(altered !== whole);
    using wire = await stream.wire();
    wire.socket.send(altered);
    const frame = await wire.nextText();
    // The change may have made another valid hello, such as one with another nonce.
    if (frame["type"] === "attestation") return;
    assert.ok(frame["type"] === "error" && isStreamCode(frame["code"]));
    assert.equal(await wire.closed, closeCodes[frame["code"]]);
  });
}

/** Sends the messages. The last message that comes back is the one error frame, and the close has its code. */
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
