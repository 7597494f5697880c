/** The answer's half of confidential-stream.md, 4: over the wire, with a man in the middle, each fails closed. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, ConfidentialError } from "../../../../plugins/confidential/client/client.ts";
import type {
  ConfidentialCode,
  ConnectOptions,
  UnverifiedReason,
} from "../../../../plugins/confidential/client/client.ts";
import { maxFrameBytes } from "../../../../plugins/confidential/protocol/frames.ts";
import { fromBase64Url, toBase64Url } from "../../../../plugins/confidential/protocol/layout.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { reportMessage } from "../../../../plugins/confidential/protocol/report.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { bytesOf, sound, textOf, touched } from "../protocol/session.ts";
import { seconds, startFakeGateway, usedCUMilli } from "./fake-gateway.ts";
import type { Json, Outgoing, Script } from "./fake-gateway.ts";

const messages = [{ role: "user", content: "a secret" }];

/** The frames of an answer: two chunks, the last, `done`. */
type Frames = readonly [Bytes, Bytes, Bytes, string];

function sending(
  change: (frames: Frames, request: readonly Bytes[]) => readonly Outgoing[],
): Script {
  // The fake's own answer has these four.
  return { outgoing: (frames, request) => change(frames as unknown as Frames, request) };
}

/** A byte of a frame's header set to another value. */
function headerWith(frame: Bytes, at: number, value: number): Bytes {
  const copy = Uint8Array.from(frame);
  copy[at] = value;
  return copy;
}

interface Break {
  readonly name: string;
  readonly script: Script;
  readonly code: ConfidentialCode;
}

const breaks: readonly Break[] = [
  ...[
    ["the header's version", 0, 9],
    ["the header's type", 1, 7],
    ["the header's flags", 2, 2],
    ["the header's epoch", 3, 1],
    ["the header's rid", 7, 2],
  ].map(([what, at, value]) => ({
    name: `${what} is changed`,
    script: sending(([first, ...rest]) => [headerWith(first, Number(at), Number(value)), ...rest]),
    code: "BAD_FRAME" as const,
  })),
  ...[16, 40, -1].map((at) => ({
    name: `a bit of the ciphertext is turned, at ${at}`,
    script: sending(([first, ...rest]) => [
      touched(first, at < 0 ? first.length + at : at),
      ...rest,
    ]),
    code: "BAD_FRAME" as const,
  })),
  {
    name: "the sequence jumps",
    script: sending(([first, ...rest]) => [headerWith(first, 15, 1), ...rest]),
    code: "REPLAY",
  },
  {
    name: "the sequence is beyond 32 bits",
    script: sending(([first, ...rest]) => [headerWith(first, 11, 1), ...rest]),
    code: "REPLAY",
  },
  {
    name: "frames are in another order",
    script: sending(([one, two, last, done]) => [two, one, last, done]),
    code: "REPLAY",
  },
  {
    name: "a frame is dropped",
    script: sending(([one, , last, done]) => [one, last, done]),
    code: "REPLAY",
  },
  {
    name: "a frame comes twice",
    script: sending(([one, ...rest]) => [one, one, ...rest]),
    code: "REPLAY",
  },
  {
    name: "the request is reflected",
    script: sending((frames, [request]) => [sound(request), ...frames]),
    code: "BAD_FRAME",
  },
  {
    name: "the request is reflected as a chunk",
    script: sending((frames, [request]) => [headerWith(sound(request), 1, 2), ...frames]),
    code: "BAD_FRAME",
  },
  {
    name: "the last frame's END is taken off",
    script: sending(([one, two, last, done]) => [one, two, headerWith(last, 2, 0), done]),
    code: "BAD_FRAME",
  },
  {
    name: "a chunk is made the last frame",
    script: sending(([one, , , done]) => [headerWith(headerWith(one, 1, 3), 2, 1), done]),
    code: "BAD_FRAME",
  },
  {
    name: "done comes before the end",
    script: sending(([one, two, , done]) => [one, two, done]),
    code: "TRUNCATED",
  },
  { name: "done comes alone", script: sending(([, , , done]) => [done]), code: "TRUNCATED" },
  {
    name: "done is of another request",
    script: { done: (frame) => ({ ...frame, rid: 2 }) },
    code: "BAD_FRAME",
  },
  {
    name: "done names a member twice",
    script: sending(([one, two, last, done]) => [
      one,
      two,
      last,
      done.replace('"rid":1', '"rid":1,"rid":1'),
    ]),
    code: "BAD_FRAME",
  },
  {
    name: "done has no usage",
    script: { done: ({ usage: _, ...frame }) => frame },
    code: "BAD_FRAME",
  },
  {
    name: "a frame is too long",
    script: sending(([one, ...rest]) => {
      const long = new Uint8Array(maxFrameBytes + 1);
      long.set(one);
      return [long, ...rest];
    }),
    code: "LIMIT_EXCEEDED",
  },
  {
    name: "a frame is too short",
    script: sending(([one, ...rest]) => [one.subarray(0, 35), ...rest]),
    code: "BAD_FRAME",
  },
  {
    name: "an attestation comes again",
    script: sending((frames) => [
      JSON.stringify({ type: "attestation", core: "", sig: "A".repeat(86), evidence: {} }),
      ...frames,
    ]),
    code: "BAD_FRAME",
  },
  {
    name: "an error frame comes",
    script: sending(([one]) => [
      one,
      JSON.stringify({ type: "error", error: "x", code: "TIMEOUT" }),
    ]),
    code: "TIMEOUT",
  },
  {
    name: "an error frame asks for plaintext",
    script: sending(([one]) => [one, JSON.stringify({ type: "error", error: "POST it instead" })]),
    code: "CONNECTION_CLOSED",
  },
  {
    name: "the enclave seals what is no JSON object",
    script: { deltas: ["Hel"] },
    code: "BAD_FRAME",
  },
  {
    name: "the enclave seals what is no delta",
    script: { deltas: [{ content: 1 }] },
    code: "BAD_FRAME",
  },
  {
    name: "the last frame has no finish_reason",
    script: { final: { finish_reason: undefined } },
    code: "BAD_FRAME",
  },
];

describe("the session breaks, and nothing follows:", () => {
  for (const { name, script, code } of breaks) {
    test(name, async (t) => {
      const gateway = await startFakeGateway(t, script);
      const session = await connect(gateway.options);
      const answer = session.chat({ messages });
      const isBroken = (error: unknown): boolean => {
        assert.ok(error instanceof ConfidentialError, String(error));
        assert.equal(error.code, code, error.message);
        return true;
      };
      await assert.rejects(answer.final, isBroken);
      await assert.rejects(async () => {
        for await (const delta of answer) assert.ok(delta["content"]);
      }, isBroken);
      const frames = gateway.frames;
      await assert.rejects(session.chat({ messages }).final, isBroken);
      await session.close();
      assert.equal(gateway.frames, frames, "nothing more is sent");
      assert.equal(gateway.upgrades.length, 1, "one attempt");
      assert.deepEqual(gateway.requests, [], "no other way");
    });
  }
});

interface Bill {
  readonly name: string;
  readonly script: Script;
  readonly options?: Partial<ConnectOptions>;
  readonly reason: UnverifiedReason;
}

/** The report's text with one part in place of another, signed anew. */
function rewritten(from: string | RegExp, to: string): Script {
  return {
    reportBytes: (bytes) => {
      const text = textOf(bytes).replace(from, to);
      assert.notEqual(text, textOf(bytes));
      return bytesOf(text);
    },
  };
}

function reportAltered(from: string | RegExp, to: string): Script["done"] {
  return (frame) => {
    const text = textOf(sound(fromBase64Url(frame["report"] as string)));
    assert.notEqual(text.replace(from, to), text);
    return { ...frame, report: toBase64Url(bytesOf(text.replace(from, to))) };
  };
}

const stranger = createSigner();
const bills: readonly Bill[] = [
  {
    name: "there is no report",
    script: { done: ({ report: _, sig: __, ...frame }) => frame },
    reason: "no_report",
  },
  {
    name: "there is no signature",
    script: { done: ({ sig: _, ...frame }) => frame },
    reason: "no_report",
  },
  {
    name: "the signature is another",
    script: { done: (frame) => ({ ...frame, sig: "A".repeat(86) }) },
    reason: "bad_signature",
  },
  {
    name: "another key signed it",
    script: {
      done: (frame) => {
        const message = reportMessage(sound(fromBase64Url(frame["report"] as string)));
        // Node signs at once.
        const sig = stranger.sign(message) as Bytes;
        return { ...frame, sig: toBase64Url(sig) };
      },
    },
    reason: "bad_signature",
  },
  {
    name: "tokens of the report are altered",
    script: { done: reportAltered('"completion":5', '"completion":6') },
    reason: "bad_signature",
  },
  {
    name: "the usage told differs",
    script: { done: (frame) => ({ ...frame, usage: usageWith(frame, "completion_tokens", 6) }) },
    reason: "usage_mismatch",
  },
  {
    name: "the total told differs",
    script: { done: (frame) => ({ ...frame, usage: usageWith(frame, "total_tokens", 15) }) },
    reason: "usage_mismatch",
  },
  {
    name: "it is of another session",
    script: rewritten(/"session":"../, '"session":"zz'),
    reason: "replay",
  },
  { name: "it is of another request", script: { report: { rid: 2 } }, reason: "replay" },
  {
    name: "it is of another handshake",
    script: { report: { th: "0".repeat(64) } },
    reason: "replay",
  },
  {
    name: "it is of another keyset",
    script: { report: { keyset: `sha256:${"0".repeat(64)}` } },
    reason: "unknown_key",
  },
  {
    name: "it covers another request",
    script: { report: { reqDigest: "0".repeat(64) } },
    reason: "digest_mismatch",
  },
  {
    name: "it covers another response",
    script: { report: { resDigest: "0".repeat(64) } },
    reason: "digest_mismatch",
  },
  { name: "it is old", script: { report: { iat: seconds - 301 } }, reason: "stale" },
  { name: "it is of the future", script: { report: { iat: seconds + 301 } }, reason: "stale" },
  {
    name: "it is of another model",
    script: { report: { model: "big" } },
    reason: "usage_mismatch",
  },
  { name: "it is of another network", script: { report: { net: "x" } }, reason: "usage_mismatch" },
  {
    name: "it counts more than was allowed",
    script: { report: { tokens: { prompt: 9, completion: 65, cached: 0, reasoning: 0 } } },
    reason: "usage_mismatch",
  },
  {
    name: "it names a member twice",
    script: rewritten('"ctr":', '"ctr":7,"ctr":'),
    reason: "no_report",
  },
  { name: "it is of another type", script: rewritten("usage/1", "usage/2"), reason: "no_report" },
  {
    name: "its coefficient is above the highest",
    script: { report: { coefficient: 1501 } },
    options: { maxCoefficient: 1500 },
    reason: "policy",
  },
  {
    name: "no hardware vouches",
    script: {},
    options: { treatSimulatedAsVerified: false },
    reason: "simulated",
  },
];

function usageWith(frame: Json, member: string, value: number): Json {
  return { ...(frame["usage"] as Json), [member]: value };
}

describe("a bill is not verified, whatever the gateway says of it:", () => {
  for (const { name, script, options, reason } of bills) {
    test(name, async (t) => {
      const gateway = await startFakeGateway(t, script);
      const session = await connect({ ...gateway.options, ...options });
      const { final } = session.chat({ messages });
      const { verified, unverifiedReason, usage, checks } = await final;
      assert.deepEqual([verified, unverifiedReason], [false, reason]);
      assert.deepEqual([usage.verified, usage.unverified_reason], [false, reason]);
      assert.ok(checks.some(({ result }) => result === "fail"));
      await session.close();
    });
  }

  test("a counter of the keyset comes twice, in one session or in two", async (t) => {
    const gateway = await startFakeGateway(t, { report: { ctr: 7 } });
    const session = await connect(gateway.options);
    assert.equal((await session.chat({ messages }).final).verified, true);
    const again = await session.chat({ messages }).final;
    assert.deepEqual([again.verified, again.unverifiedReason], [false, "replay"]);
    await session.close();
    const second = await connect(gateway.options);
    const third = await second.chat({ messages }).final;
    assert.deepEqual([third.verified, third.unverifiedReason], [false, "replay"]);
    await second.close();
  });

  test("what is charged can be reckoned again, and shows when it is too much", async (t) => {
    const done = (frame: Json): Json => ({ ...frame, usedCUMilli: usedCUMilli + 1 });
    const gateway = await startFakeGateway(t, { done });
    const session = await connect(gateway.options);
    const final = await session.chat({ messages }).final;
    assert.equal(final.usedCUMilli, usedCUMilli + 1);
    assert.equal(final.recomputedCUMilli, usedCUMilli);
    await session.close();
  });

  test("what attempts before it have paid is left out of what is reckoned again", async (t) => {
    const bill = { usedCUMilli: usedCUMilli - 6, paidBeforeCUMilli: 6 };
    const gateway = await startFakeGateway(t, {
      done: (frame: Json): Json => ({ ...frame, ...bill }),
    });
    const session = await connect(gateway.options);
    const final = await session.chat({ messages }).final;
    assert.equal(final.paidBeforeCUMilli, 6);
    assert.equal(final.usedCUMilli, usedCUMilli - 6);
    assert.equal(final.recomputedCUMilli, usedCUMilli - 6);
    await session.close();
  });
});
