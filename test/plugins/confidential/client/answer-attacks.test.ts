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
import { bytesOf, unwrap, textOf } from "../protocol/session.ts";
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

/** The code of each attack, and what the gateway does. */
const breaks: Partial<Record<ConfidentialCode, Readonly<Record<string, Script>>>> = {
  BAD_FRAME: {
    "the request is reflected": sending((frames, [request]) => [unwrap(request), ...frames]),
    "the request is reflected as a chunk": sending((frames, [request]) => [
      headerWith(unwrap(request), 1, 2),
      ...frames,
    ]),
    "the END flag of the last frame is removed": sending(([one, two, last, done]) => [
      one,
      two,
      headerWith(last, 2, 0),
      done,
    ]),
    "a chunk is changed to the last frame": sending(([one, , , done]) => [
      headerWith(headerWith(one, 1, 3), 2, 1),
      done,
    ]),
    "done belongs to another request": { done: (frame) => ({ ...frame, rid: 2 }) },
    "done has a duplicate member": sending(([one, two, last, done]) => [
      one,
      two,
      last,
      done.replace('"rid":1', '"rid":1,"rid":1'),
    ]),
    "done has no usage": { done: ({ usage: _, ...frame }) => frame },
    "a frame is too short": sending(([one, ...rest]) => [one.subarray(0, 35), ...rest]),
    "a second attestation arrives": sending((frames) => [
      JSON.stringify({ type: "attestation", core: "", sig: "A".repeat(86), evidence: {} }),
      ...frames,
    ]),
    "the enclave encrypts something that is not a JSON object": { deltas: ["Hel"] },
    "the enclave encrypts something that is not a delta": { deltas: [{ content: 1 }] },
    "the last frame has no finish_reason": { final: { finish_reason: undefined } },
  },
  REPLAY: {
    "a sequence number is skipped": sending(([first, ...rest]) => [
      headerWith(first, 15, 1),
      ...rest,
    ]),
    "a sequence number has more than 32 bits": sending(([first, ...rest]) => [
      headerWith(first, 11, 1),
      ...rest,
    ]),
    "frames are in another order": sending(([one, two, last, done]) => [two, one, last, done]),
    "a frame is dropped": sending(([one, , last, done]) => [one, last, done]),
    "a frame is sent twice": sending(([one, ...rest]) => [one, one, ...rest]),
  },
  TRUNCATED: {
    "done arrives before the end": sending(([one, two, , done]) => [one, two, done]),
    "done arrives without other frames": sending(([, , , done]) => [done]),
  },
  LIMIT_EXCEEDED: {
    "a frame is too long": sending(([one, ...rest]) => {
      const long = new Uint8Array(maxFrameBytes + 1);
      long.set(one);
      return [long, ...rest];
    }),
  },
  TIMEOUT: {
    "an error frame arrives": sending(([one]) => [
      one,
      JSON.stringify({ type: "error", error: "x", code: "TIMEOUT" }),
    ]),
  },
  CONNECTION_CLOSED: {
    "an error frame asks for plaintext": sending(([one]) => [
      one,
      JSON.stringify({ type: "error", error: "POST it instead" }),
    ]),
  },
};

describe("the session fails and no request follows if", () => {
  const all = Object.entries(breaks).flatMap(([code, scripts]) =>
    Object.entries(scripts).map(([name, script]) => ({ code, name, script })),
  );
  for (const { code, name, script } of all) {
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

type Bill = readonly [
  name: string,
  script: Script,
  reason: UnverifiedReason,
  options?: Partial<ConnectOptions>,
];

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
  ["the report is missing", { done: ({ report: _, sig: __, ...frame }) => frame }, "no_report"],
  ["the signature is missing", { done: ({ sig: _, ...frame }) => frame }, "no_report"],
  [
    "the signature is of another report",
    { done: (frame) => ({ ...frame, sig: "A".repeat(86) }) },
    "bad_signature",
  ],
  [
    "another key signed the report",
    {
      done: (frame) => {
        const message = reportMessage(unwrap(fromBase64Url(frame["report"] as string)));
        // Node's signer is synchronous.
        const sig = stranger.sign(message) as Bytes;
        return { ...frame, sig: toBase64Url(sig) };
      },
    },
    "bad_signature",
  ],
  [
    "the tokens in the report are altered",
    { done: reportAltered('"completion":5', '"completion":6') },
    "bad_signature",
  ],
  [
    "the usage in done differs",
    { done: (frame) => ({ ...frame, usage: usageWith(frame, "completion_tokens", 6) }) },
    "usage_mismatch",
  ],
  [
    "the total in done differs",
    { done: (frame) => ({ ...frame, usage: usageWith(frame, "total_tokens", 15) }) },
    "usage_mismatch",
  ],
  ["the report is for another session", rewritten(/"session":"../, '"session":"zz'), "replay"],
  ["the report is for another request", { report: { rid: 2 } }, "replay"],
  ["the report is for another handshake", { report: { th: "0".repeat(64) } }, "replay"],
  [
    "the report is for another keyset",
    { report: { keyset: `sha256:${"0".repeat(64)}` } },
    "unknown_key",
  ],
  [
    "the report covers other request frames",
    { report: { reqDigest: "0".repeat(64) } },
    "digest_mismatch",
  ],
  [
    "the report covers other response frames",
    { report: { resDigest: "0".repeat(64) } },
    "digest_mismatch",
  ],
  ["the report is too old", { report: { iat: seconds - 301 } }, "stale"],
  ["the report is from the future", { report: { iat: seconds + 301 } }, "stale"],
  ["the report is for another model", { report: { model: "big" } }, "usage_mismatch"],
  ["the report is for another network", { report: { net: "x" } }, "usage_mismatch"],
  [
    "the report counts more tokens than allowed",
    { report: { tokens: { prompt: 9, completion: 65, cached: 0, reasoning: 0 } } },
    "usage_mismatch",
  ],
  ["the report has a duplicate member", rewritten('"ctr":', '"ctr":7,"ctr":'), "no_report"],
  ["the report has another type", rewritten("usage/1", "usage/2"), "no_report"],
  [
    "the coefficient is above the maximum",
    { report: { coefficient: 1501 } },
    "policy",
    { maxCoefficient: 1500 },
  ],
  ["no hardware attests the enclave", {}, "simulated", { treatSimulatedAsVerified: false }],
];

function usageWith(frame: Json, member: string, value: number): Json {
  return { ...(frame["usage"] as Json), [member]: value };
}

describe("a report is not verified, whatever the gateway says, if", () => {
  for (const [name, script, reason, options] of bills) {
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
