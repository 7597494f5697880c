/** Attacks (confidential-stream.md, 4), over the wire and with a man in the middle. Every attack must fail closed. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, ConfidentialError } from "../../../../plugins/confidential/client/client.ts";
import type { ConnectOptions } from "../../../../plugins/confidential/client/client.ts";
import { writeCore } from "../../../../plugins/confidential/protocol/keyset.ts";
import { fromBase64Url, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { reportMessage } from "../../../../plugins/confidential/protocol/usage-report.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { bytesOf, unwrap, textOf, withFlippedBit } from "../protocol/session.ts";
import { otherPlatform, seconds, start, startFakeGateway, usedCUMilli } from "./fake-gateway.ts";
import type { Json, Outgoing, Script } from "./fake-gateway.ts";

const messages = [{ role: "user", content: "a secret" }];
const zeros = "0".repeat(64);

// The fake gateway wrote base64url in these members.
const bytesIn = (frame: Json, member: string): Bytes =>
  unwrap(fromBase64Url(frame[member] as string));

const changed = (member: "core" | "sig", change: (bytes: Bytes) => Bytes): Script => ({
  attestation: (frame) => ({ ...frame, [member]: toBase64Url(change(bytesIn(frame, member))) }),
});
const hello = (members: object): Script => ({
  hello: (bytes) =>
    bytesOf(JSON.stringify({ ...(JSON.parse(textOf(bytes)) as object), ...members })),
});
const coreText = (from: string, to: string): Script => ({
  core: (core) => bytesOf(textOf(writeCore(core)).replace(from, to)),
});
type Attack = Script | readonly [Script, Partial<ConnectOptions>];
type Attacks = Readonly<Record<string, Attack>>;

function* eachOf(groups: Readonly<Record<string, Attacks>>) {
  for (const [end, attacks] of Object.entries(groups)) {
    for (const [name, attack] of Object.entries(attacks)) {
      const [script, options] = "length" in attack ? attack : [attack, {}];
      yield { end, name, script, options };
    }
  }
}

const sessionMember = /"session":"./;
const foreign = otherPlatform.evidence(new Uint8Array(64), start - 3_600_000).collateral;

/** By the code of the error and the names of the failed checks. */
const handshakes: Readonly<Record<string, Attacks>> = {
  "ATTESTATION_UNAVAILABLE handshake": {
    "a bit of hello is turned": { hello: (bytes) => withFlippedBit(bytes, 12) },
    "a relay adds a space to hello": { hello: (all) => bytesOf(textOf(all).replace(":", ": ")) },
    "a relay asks for another suite": hello({ suite: "p256-hkdf-sha256-aes256gcm" }),
    "a relay asks for no padding": hello({ pad: 0 }),
    "a relay asks for the gateway": hello({ termination: "gateway" }),
    "another session id is in core": changed("core", (core) =>
      bytesOf(textOf(core).replace(sessionMember, '"session":"z')),
    ),
    "a bit of the signature is turned": changed("sig", (sig) => withFlippedBit(sig, 31)),
    "another key signs the handshake": { handshakeSigner: createSigner() },
    "the keyset has expired": { keyset: { notAfter: seconds } },
    "the keyset is valid for more than an hour": { keyset: { notAfter: seconds + 3601 } },
    "the role is the gateway's": { keyset: { role: "gateway" } },
    "the role is not the requested one": [
      { keyset: { role: "worker" } },
      { termination: "gateway" },
    ],
    "the keyset is for another network": { keyset: { net: "x" } },
  },
  "BAD_FRAME handshake": {
    "core is no longer JSON": changed("core", (core) => withFlippedBit(core, 0)),
    "core has a duplicate member": coreText('"v":1', '"v":1,"v":1'),
  },
  "SUITE_UNSUPPORTED handshake": { "core has another version": coreText('"v":1', '"v":2') },
  "BAD_FRAME session_keys": {
    "the enclave's key is of low order": {
      core: (core) => writeCore({ ...core, epk: new Uint8Array(32) }),
    },
  },
  "EVIDENCE_REFUSED report_data": {
    "the quote is for another keyset": { reportData: (bytes) => withFlippedBit(bytes, 8) },
  },
  "EVIDENCE_REFUSED not_simulated": {
    "simulated evidence is not allowed": [{}, { allowSimulated: false }],
  },
  "EVIDENCE_REFUSED evidence": { "the evidence is missing": { evidence: () => ({}) } },
  "EVIDENCE_REFUSED tcb_status": {
    "the platform has an advisory that the policy does not list": [
      { state: { tcbStatus: "SWHardeningNeeded", advisories: ["INTEL-SA-1"] } },
      { advisories: ["INTEL-SA-2"] },
    ],
  },
  "EVIDENCE_REFUSED platform": {
    "the machine is unknown": [{}, { platforms: ["f".repeat(32)] }],
  },
  "EVIDENCE_REFUSED collateral_format": {
    "the collateral is missing": { evidence: ({ collateral: _, ...rest }) => rest },
  },
  "EVIDENCE_REFUSED image_hash": {
    "the image is unknown": [{}, { imageHashes: ["f".repeat(64)] }],
  },
  "ATTESTATION_UNAVAILABLE evidence_given": {
    "the evidence does not match its digest": {
      attestation: (frame) => ({ ...frame, evidence_digest: `sha256:${zeros}` }),
    },
    "the evidence cannot be found by its digest": {
      attestation: ({ evidence: _, ...rest }) => ({ ...rest, evidence_digest: `sha256:${zeros}` }),
    },
  },
  "EVIDENCE_REFUSED tcb_info_signature qe_identity_signature root_crl pck_crl dcap_qvl tcb_status":
    {
      "the caller's collateral is for another platform": [
        { evidence: ({ collateral: _, ...rest }) => rest },
        { collateral: unwrap(foreign) },
      ],
    },
  "MODEL_NOT_AVAILABLE answer": {
    "an error frame arrives": {
      attestation: () => ({ type: "error", error: "no", code: "MODEL_NOT_AVAILABLE" }),
    },
  },
  "CONNECTION_CLOSED answer": {
    "an error frame with an unknown code arrives": {
      attestation: () => ({ type: "error", error: "use http", code: "USE_PLAINTEXT" }),
    },
    "the frame is too long": {
      attestation: (frame) => ({ ...frame, note: "x".repeat(1_048_576) }),
    },
  },
  "BAD_FRAME answer": {
    "an encrypted frame arrives first": { attestation: () => new Uint8Array(64) },
    "a report arrives first": {
      attestation: () => ({ type: "report", rid: 1, report: "", sig: "A".repeat(86) }),
    },
    "the frame has a duplicate member": {
      attestation: (frame) => JSON.stringify(frame).replace('"type":', '"core":"","type":'),
    },
  },
  "PRICE_ABOVE_MAX offer": {
    "the offer is above the maximum coefficient": [{}, { maxCoefficient: 1499 }],
  },
  // The status is not 401, because Node's WebSocket then repeats the request with the same header.
  "CONNECTION_FAILED connection": {
    "the upgrade is refused with 403": { status: 403 },
    "the server selects another subprotocol": { protocol: "v2" },
  },
};

describe("no session is opened and no prompt is sent if", () => {
  for (const { end, name, script, options } of eachOf(handshakes)) {
    test(name, async (t) => {
      const gateway = await startFakeGateway(t, script);
      const error = await connect({ ...gateway.options, ...options }).then(
        () => assert.fail("a session was opened"),
        (reason: unknown) => reason,
      );
      assert.ok(error instanceof ConfidentialError, String(error));
      const failed = (error.checks ?? []).filter(({ result }) => result === "fail");
      assert.equal([error.code, ...failed.map((check) => check.name)].join(" "), end);
      assert.ok(failed.every(({ why }) => why !== undefined && why !== ""));
      assert.equal(gateway.upgrades.length, 1, "one attempt");
      assert.equal(gateway.frames, 0, "no ciphertext");
      const stray = gateway.requests.filter((line) => !line.startsWith("GET /v1/confidential/e"));
      assert.deepEqual(stray, [], "no other way");
    });
  }
});

/** The frames of an answer: two chunks, the last frame, and `done`. */
type Frames = readonly [Bytes, Bytes, Bytes, string];

const sending = (
  change: (frames: Frames, request: readonly Bytes[]) => readonly Outgoing[],
): Script => ({
  // The answer of the fake gateway has these four frames.
  outgoing: (frames, request) => change(frames as unknown as Frames, request),
});

function headerWith(frame: Bytes, at: number, value: number): Bytes {
  const copy = Uint8Array.from(frame);
  copy[at] = value;
  return copy;
}

const attested = JSON.stringify({
  type: "attestation",
  core: "",
  sig: "A".repeat(86),
  evidence: {},
});

/** By the code of the error. `protocol/frames.test.ts` has the other rules for frames. */
const breaks: Readonly<Record<string, Attacks>> = {
  BAD_FRAME: {
    "the request is reflected as a chunk": sending((frames, [request]) => [
      headerWith(unwrap(request), 1, 2),
      ...frames,
    ]),
    "a chunk is changed to the last frame": sending(([one, , , done]) => [
      headerWith(headerWith(one, 1, 3), 2, 1),
      done,
    ]),
    "done belongs to another request": { done: (frame) => ({ ...frame, rid: 2 }) },
    "done has no usage": { done: ({ usage: _, ...frame }) => frame },
    "a second attestation arrives": sending((frames) => [attested, ...frames]),
    "the enclave encrypts something that is not a JSON object": { deltas: ["Hel"] },
    "the enclave encrypts something that is not a delta": { deltas: [{ content: 1 }] },
    "the last frame has no finish_reason": { final: { finish_reason: undefined } },
  },
  REPLAY: {
    "a frame is dropped": sending(([one, , last, done]) => [one, last, done]),
    "a frame is sent twice": sending(([one, ...rest]) => [one, one, ...rest]),
  },
  TRUNCATED: { "done arrives before the end": sending(([one, two, , done]) => [one, two, done]) },
  TIMEOUT: {
    "an error frame arrives during an answer": sending(([one]) => [
      one,
      '{"type":"error","error":"x","code":"TIMEOUT"}',
    ]),
  },
  CONNECTION_CLOSED: {
    "an error frame asks for plaintext": sending(([one]) => [
      one,
      '{"type":"error","error":"POST it instead"}',
    ]),
  },
};

describe("the session fails and no request follows if", () => {
  for (const { end: code, name, script } of eachOf(breaks)) {
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

const stranger = createSigner();
const usageWith = (frame: Json, member: string, value: number): Json => ({
  ...frame,
  usage: { ...(frame["usage"] as Json), [member]: value },
});
const tokens = { prompt: 9, completion: 65, cached: 0, reasoning: 0 };

/** By the reason. `protocol/usage-report.test.ts` has the other reasons. */
const bills: Readonly<Record<string, Attacks>> = {
  no_report: { "the signature is missing": { done: ({ sig: _, ...frame }) => frame } },
  bad_signature: {
    "another key signed the report": {
      done(frame) {
        // Node's signer is synchronous.
        const sig = stranger.sign(reportMessage(bytesIn(frame, "report"))) as Bytes;
        return { ...frame, sig: toBase64Url(sig) };
      },
    },
  },
  usage_mismatch: {
    "the usage in done differs": { done: (frame) => usageWith(frame, "completion_tokens", 6) },
    "the total in done differs": { done: (frame) => usageWith(frame, "total_tokens", 15) },
    "the report is for another model": { report: { model: "big" } },
    "the report is for another network": { report: { net: "x" } },
    "the report counts more tokens than allowed": { report: { tokens } },
  },
  replay: {
    "the report is for another session": { report: { session: "A".repeat(22) } },
    "the report is for another request": { report: { rid: 2 } },
    "the report is for another handshake": { report: { th: zeros } },
  },
  unknown_key: { "the report is for another keyset": { report: { keyset: `sha256:${zeros}` } } },
  digest_mismatch: {
    "the report covers other request frames": { report: { reqDigest: zeros } },
    "the report covers other response frames": { report: { resDigest: zeros } },
  },
  stale: { "the report is too old": { report: { iat: seconds - 301 } } },
  policy: {
    "the coefficient is above the maximum": [
      { report: { coefficient: 1501 } },
      { maxCoefficient: 1500 },
    ],
  },
  simulated: { "no hardware attests the enclave": [{}, { treatSimulatedAsVerified: false }] },
};

describe("a report is not verified, whatever the gateway says, if", () => {
  for (const { end: reason, name, script, options } of eachOf(bills)) {
    test(name, async (t) => {
      const gateway = await startFakeGateway(t, script);
      const session = await connect({ ...gateway.options, ...options });
      const { verified, unverifiedReason, usage, checks } = await session.chat({ messages }).final;
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
    assert.equal((await session.chat({ messages }).final).unverifiedReason, "replay");
    await session.close();
    const second = await connect(gateway.options);
    assert.equal((await second.chat({ messages }).final).unverifiedReason, "replay");
    await second.close();
  });
});

test("the end of an answer has the recomputed cost, without what earlier attempts have paid", async (t) => {
  for (const [bill, recomputed] of [
    [{ usedCUMilli: usedCUMilli + 1 }, usedCUMilli],
    [{ usedCUMilli: usedCUMilli - 6, paidBeforeCUMilli: 6 }, usedCUMilli - 6],
  ] as const) {
    const gateway = await startFakeGateway(t, { done: (frame) => ({ ...frame, ...bill }) });
    const session = await connect(gateway.options);
    const final = await session.chat({ messages }).final;
    assert.partialDeepStrictEqual(final, { ...bill, recomputedCUMilli: recomputed });
    await session.close();
  }
});
