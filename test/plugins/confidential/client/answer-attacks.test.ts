/**
 * Attacks on answers (confidential-stream.md, 4), over the wire and with a man in the middle. Every attack must fail
 * closed.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, ConfidentialError } from "../../../../plugins/confidential/client/client.ts";
import type {
  ConfidentialCode,
  ConnectOptions,
  UnverifiedReason,
} from "../../../../plugins/confidential/client/client.ts";
import { maxFrameBytes } from "../../../../plugins/confidential/protocol/frames.ts";
import { fromBase64Url, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { reportMessage } from "../../../../plugins/confidential/protocol/usage-report.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { bytesOf, unwrap, textOf, withFlippedBit } from "../protocol/session.ts";
import { seconds, startFakeGateway, usedCUMilli } from "./fake-gateway.ts";
import type { Json, Outgoing, Script } from "./fake-gateway.ts";

const messages = [{ role: "user", content: "a secret" }];

/** The frames of an answer: two chunks, the last frame, and `done`. */
type Frames = readonly [Bytes, Bytes, Bytes, string];

function sending(
  change: (frames: Frames, request: readonly Bytes[]) => readonly Outgoing[],
): Script {
  // The answer of the fake gateway has these four frames.
  return { outgoing: (frames, request) => change(frames as unknown as Frames, request) };
}

/** Sets a byte of a frame's header to another value. */
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
      withFlippedBit(first, at < 0 ? first.length + at : at),
      ...rest,
    ]),
    code: "BAD_FRAME" as const,
  })),
  {
    name: "a sequence number is skipped",
    script: sending(([first, ...rest]) => [headerWith(first, 15, 1), ...rest]),
    code: "REPLAY",
  },
  {
    name: "a sequence number has more than 32 bits",
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
    name: "a frame is sent twice",
    script: sending(([one, ...rest]) => [one, one, ...rest]),
    code: "REPLAY",
  },
  {
    name: "the request is reflected",
    script: sending((frames, [request]) => [unwrap(request), ...frames]),
    code: "BAD_FRAME",
  },
  {
    name: "the request is reflected as a chunk",
    script: sending((frames, [request]) => [headerWith(unwrap(request), 1, 2), ...frames]),
    code: "BAD_FRAME",
  },
  {
    name: "the END flag of the last frame is removed",
    script: sending(([one, two, last, done]) => [one, two, headerWith(last, 2, 0), done]),
    code: "BAD_FRAME",
  },
  {
    name: "a chunk is changed to the last frame",
    script: sending(([one, , , done]) => [headerWith(headerWith(one, 1, 3), 2, 1), done]),
    code: "BAD_FRAME",
  },
  {
    name: "done arrives before the end",
    script: sending(([one, two, , done]) => [one, two, done]),
    code: "TRUNCATED",
  },
  {
    name: "done arrives without other frames",
    script: sending(([, , , done]) => [done]),
    code: "TRUNCATED",
  },
  {
    name: "done belongs to another request",
    script: { done: (frame) => ({ ...frame, rid: 2 }) },
    code: "BAD_FRAME",
  },
  {
    name: "done has a duplicate member",
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
    name: "a second attestation arrives",
    script: sending((frames) => [
      JSON.stringify({ type: "attestation", core: "", sig: "A".repeat(86), evidence: {} }),
      ...frames,
    ]),
    code: "BAD_FRAME",
  },
  {
    name: "an error frame arrives",
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
    name: "the enclave encrypts something that is not a JSON object",
    script: { deltas: ["Hel"] },
    code: "BAD_FRAME",
  },
  {
    name: "the enclave encrypts something that is not a delta",
    script: { deltas: [{ content: 1 }] },
    code: "BAD_FRAME",
  },
  {
    name: "the last frame has no finish_reason",
    script: { final: { finish_reason: undefined } },
    code: "BAD_FRAME",
  },
];

describe("the session fails and no request follows if", () => {
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

/** Replaces a part of the report's text before the report is signed. */
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
    const text = textOf(unwrap(fromBase64Url(frame["report"] as string)));
    assert.notEqual(text.replace(from, to), text);
    return { ...frame, report: toBase64Url(bytesOf(text.replace(from, to))) };
  };
}

const stranger = createSigner();
const bills: readonly Bill[] = [
  {
    name: "the report is missing",
    script: { done: ({ report: _, sig: __, ...frame }) => frame },
    reason: "no_report",
  },
  {
    name: "the signature is missing",
    script: { done: ({ sig: _, ...frame }) => frame },
    reason: "no_report",
  },
  {
    name: "the signature is of another report",
    script: { done: (frame) => ({ ...frame, sig: "A".repeat(86) }) },
    reason: "bad_signature",
  },
  {
    name: "another key signed the report",
    script: {
      done: (frame) => {
        const message = reportMessage(unwrap(fromBase64Url(frame["report"] as string)));
        // Node's signer is synchronous.
        const sig = stranger.sign(message) as Bytes;
        return { ...frame, sig: toBase64Url(sig) };
      },
    },
    reason: "bad_signature",
  },
  {
    name: "the tokens in the report are altered",
    script: { done: reportAltered('"completion":5', '"completion":6') },
    reason: "bad_signature",
  },
  {
    name: "the usage in done differs",
    script: { done: (frame) => ({ ...frame, usage: usageWith(frame, "completion_tokens", 6) }) },
    reason: "usage_mismatch",
  },
  {
    name: "the total in done differs",
    script: { done: (frame) => ({ ...frame, usage: usageWith(frame, "total_tokens", 15) }) },
    reason: "usage_mismatch",
  },
  {
    name: "the report is for another session",
    script: rewritten(/"session":"../, '"session":"zz'),
    reason: "replay",
  },
  { name: "the report is for another request", script: { report: { rid: 2 } }, reason: "replay" },
  {
    name: "the report is for another handshake",
    script: { report: { th: "0".repeat(64) } },
    reason: "replay",
  },
  {
    name: "the report is for another keyset",
    script: { report: { keyset: `sha256:${"0".repeat(64)}` } },
    reason: "unknown_key",
  },
  {
    name: "the report covers other request frames",
    script: { report: { reqDigest: "0".repeat(64) } },
    reason: "digest_mismatch",
  },
  {
    name: "the report covers other response frames",
    script: { report: { resDigest: "0".repeat(64) } },
    reason: "digest_mismatch",
  },
  { name: "the report is too old", script: { report: { iat: seconds - 301 } }, reason: "stale" },
  {
    name: "the report is from the future",
    script: { report: { iat: seconds + 301 } },
    reason: "stale",
  },
  {
    name: "the report is for another model",
    script: { report: { model: "big" } },
    reason: "usage_mismatch",
  },
  {
    name: "the report is for another network",
    script: { report: { net: "x" } },
    reason: "usage_mismatch",
  },
  {
    name: "the report counts more tokens than allowed",
    script: { report: { tokens: { prompt: 9, completion: 65, cached: 0, reasoning: 0 } } },
    reason: "usage_mismatch",
  },
  {
    name: "the report has a duplicate member",
    script: rewritten('"ctr":', '"ctr":7,"ctr":'),
    reason: "no_report",
  },
  {
    name: "the report has another type",
    script: rewritten("usage/1", "usage/2"),
    reason: "no_report",
  },
  {
    name: "the coefficient is above the maximum",
    script: { report: { coefficient: 1501 } },
    options: { maxCoefficient: 1500 },
    reason: "policy",
  },
  {
    name: "no hardware attests the enclave",
    script: {},
    options: { treatSimulatedAsVerified: false },
    reason: "simulated",
  },
];

function usageWith(frame: Json, member: string, value: number): Json {
  return { ...(frame["usage"] as Json), [member]: value };
}

describe("a report is not verified, whatever the gateway says, if", () => {
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

  test("a counter of the keyset is used twice, in one session or in two", async (t) => {
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
});

describe("the end of an answer", () => {
  test("has the recomputed cost, so an excessive charge is visible", async (t) => {
    const done = (frame: Json): Json => ({ ...frame, usedCUMilli: usedCUMilli + 1 });
    const gateway = await startFakeGateway(t, { done });
    const session = await connect(gateway.options);
    const final = await session.chat({ messages }).final;
    assert.equal(final.usedCUMilli, usedCUMilli + 1);
    assert.equal(final.recomputedCUMilli, usedCUMilli);
    await session.close();
  });

  test("has a recomputed cost without the part that earlier attempts have paid", async (t) => {
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
