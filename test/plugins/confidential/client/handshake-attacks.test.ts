/**
 * Attacks on the handshake (confidential-stream.md, 4), over the wire and with a man in the middle. Every attack must
 * fail closed.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { connect, ConfidentialError } from "../../../../plugins/confidential/client/client.ts";
import type {
  ConfidentialCode,
  ConnectOptions,
} from "../../../../plugins/confidential/client/client.ts";
import { writeCore } from "../../../../plugins/confidential/protocol/keyset.ts";
import { fromBase64Url, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import type { Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { bytesOf, unwrap, textOf, withFlippedBit } from "../protocol/session.ts";
import { otherPlatform, seconds, start, startFakeGateway } from "./fake-gateway.ts";
import type { Json, Script } from "./fake-gateway.ts";

interface Case {
  readonly name: string;
  readonly script: Script;
  readonly options: Partial<ConnectOptions>;
  readonly code: ConfidentialCode;
  readonly failing: readonly string[];
}

/** Changes the bytes of a member of the frame. */
function changed(member: "core" | "sig", change: (bytes: Bytes) => Bytes): Script["attestation"] {
  return (frame: Json) => {
    // The fake gateway wrote base64url there.
    const bytes = unwrap(fromBase64Url(frame[member] as string));
    return { ...frame, [member]: toBase64Url(change(bytes)) };
  };
}

function helloWith(change: (hello: Json) => Json): Script["hello"] {
  return (bytes) => bytesOf(JSON.stringify(change(JSON.parse(textOf(bytes)) as Json)));
}

/** How an attempt ends: its code, and the checks that fail, in order. */
type End = Pick<Case, "code" | "failing">;
const ends = (code: ConfidentialCode, ...failing: string[]): End => ({ code, failing });
const refusedAnswer = ends("ATTESTATION_UNAVAILABLE", "handshake");
const refused = (...failing: string[]): End => ends("EVIDENCE_REFUSED", ...failing);
const attack = (name: string, end: End, script: Script, options: Case["options"] = {}): Case => ({
  name,
  ...end,
  script,
  options,
});

const transcript: readonly Case[] = [
  ...[12, 100, -2].map((at) =>
    attack(`a bit of hello is turned, at ${at}`, refusedAnswer, {
      hello: (bytes: Bytes) => withFlippedBit(bytes, at < 0 ? bytes.length + at : at),
    }),
  ),
  attack("a relay rewrites hello with its members in another order", refusedAnswer, {
    hello: helloWith((hello) => Object.fromEntries(Object.entries(hello).toReversed())),
  }),
  attack("a relay rewrites hello with a space", refusedAnswer, {
    hello: (bytes) => bytesOf(textOf(bytes).replace(":", ": ")),
  }),
  ...[
    { suite: "p256-hkdf-sha256-aes256gcm" },
    { v: 2 },
    { pad: 0 },
    { termination: "gateway" },
  ].map((members) =>
    attack(`a relay asks for ${JSON.stringify(members)}`, refusedAnswer, {
      hello: helloWith((hello) => ({ ...hello, ...members })),
    }),
  ),
  attack("a bit of core is flipped, and core is still JSON", refusedAnswer, {
    attestation: changed("core", (core) => {
      const text = textOf(core);
      const at = text.indexOf('"session":"') + 12;
      const other = text[at] === "A" ? "B" : "A";
      return bytesOf(text.slice(0, at) + other + text.slice(at + 1));
    }),
  }),
  attack("a bit of core is flipped, and core is no longer JSON", ends("BAD_FRAME", "handshake"), {
    attestation: changed("core", (core) => withFlippedBit(core, 0)),
  }),
  ...[0, 31, 32, 63].map((at) =>
    attack(`a bit of sig is turned, at ${at}`, refusedAnswer, {
      attestation: changed("sig", (sig) => withFlippedBit(sig, at)),
    }),
  ),
  attack("another key signs the handshake", refusedAnswer, { handshakeSigner: createSigner() }),
  attack("core has another version", ends("SUITE_UNSUPPORTED", "handshake"), {
    core: (core) => bytesOf(textOf(writeCore(core)).replace('"v":1', '"v":2')),
  }),
  attack("core has a duplicate member", ends("BAD_FRAME", "handshake"), {
    core: (core) => bytesOf(textOf(writeCore(core)).replace('"v":1', '"v":1,"v":1')),
  }),
  attack("the enclave's key is of low order", ends("BAD_FRAME", "session_keys"), {
    core: (core) => writeCore({ ...core, epk: new Uint8Array(32) }),
  }),
];

const keysets: readonly Case[] = [
  attack("the keyset has expired", refusedAnswer, { keyset: { notAfter: seconds } }),
  attack("the keyset is valid for more than an hour", refusedAnswer, {
    keyset: { notAfter: seconds + 3601 },
  }),
  attack("the role is the gateway's", refusedAnswer, { keyset: { role: "gateway" } }),
  attack(
    "the role is the worker's, although the gateway's enclave was requested",
    refusedAnswer,
    { keyset: { role: "worker" } },
    { termination: "gateway" },
  ),
  attack("the keyset is for another network", refusedAnswer, { keyset: { net: "x" } }),
  attack("the quote is for another keyset", refused("report_data"), {
    reportData: (bytes) => withFlippedBit(bytes, 8),
  }),
  attack("the quote is a platform quote", refused("report_data"), {
    reportData: () => new Uint8Array(64).fill(7),
  }),
];

const hour = 3_600_000;
const evidence: readonly Case[] = [
  attack(
    "simulated evidence is not allowed",
    refused("not_simulated"),
    {},
    { allowSimulated: false },
  ),
  attack("no test root is listed", refused("not_simulated"), {}, { simulatedRoots: [] }),
  attack("the evidence is missing", refused("evidence"), { evidence: () => ({}) }),
  attack(
    "the platform has an advisory that the policy does not list",
    refused("tcb_status"),
    { state: { tcbStatus: "SWHardeningNeeded", advisories: ["INTEL-SA-1"] } },
    { advisories: ["INTEL-SA-2"] },
  ),
  attack(
    "the collateral's TCB evaluation number is too low",
    refused("tcb_evaluation"),
    { state: { tcbEvaluation: 19 } },
    { minTcbEvaluation: 20 },
  ),
  attack("the collateral is missing", refused("collateral_format"), {
    evidence: ({ collateral: _, ...rest }) => rest,
  }),
  attack("the image is unknown", refused("image_hash"), {}, { imageHashes: ["f".repeat(64)] }),
  attack("the machine is unknown", refused("platform"), {}, { platforms: ["f".repeat(32)] }),
  attack(
    "a bit of the quote is flipped",
    refused("quote_signature", "dcap_qvl", "tcb_status", "image_hash"),
    {
      evidence: (given) => ({
        ...given,
        quote: Buffer.from(withFlippedBit(Buffer.from(given.quote, "base64"), 200)).toString(
          "base64",
        ),
      }),
    },
  ),
  attack(
    "the evidence does not match its digest",
    ends("ATTESTATION_UNAVAILABLE", "evidence_given"),
    { attestation: (frame) => ({ ...frame, evidence_digest: `sha256:${"0".repeat(64)}` }) },
  ),
  attack(
    "the evidence cannot be found by its digest",
    ends("ATTESTATION_UNAVAILABLE", "evidence_given"),
    {
      attestation: ({ evidence: _, ...frame }) => ({
        ...frame,
        evidence_digest: `sha256:${"0".repeat(64)}`,
      }),
    },
  ),
  attack(
    "the caller's collateral is for another platform",
    refused(
      "tcb_info_signature",
      "qe_identity_signature",
      "root_crl",
      "pck_crl",
      "dcap_qvl",
      "tcb_status",
    ),
    { evidence: ({ collateral: _, ...rest }) => rest },
    {
      collateral: unwrap(otherPlatform.evidence(new Uint8Array(64), start - hour).collateral),
    },
  ),
];

const frames: readonly Case[] = [
  attack("an error frame arrives", ends("MODEL_NOT_AVAILABLE", "answer"), {
    attestation: () => ({ type: "error", error: "no", code: "MODEL_NOT_AVAILABLE" }),
  }),
  attack("an error frame with an unknown code arrives", ends("CONNECTION_CLOSED", "answer"), {
    attestation: () => ({ type: "error", error: "use http", code: "USE_PLAINTEXT" }),
  }),
  attack("an encrypted frame arrives first", ends("BAD_FRAME", "answer"), {
    attestation: () => new Uint8Array(64),
  }),
  attack("a report arrives first", ends("BAD_FRAME", "answer"), {
    attestation: () => ({ type: "report", rid: 1, report: "", sig: "A".repeat(86) }),
  }),
  attack("the frame has a duplicate member", ends("BAD_FRAME", "answer"), {
    attestation: (frame) => JSON.stringify(frame).replace('"type":', '"core":"","type":'),
  }),
  attack("the frame is too long", ends("CONNECTION_CLOSED", "answer"), {
    attestation: (frame) => ({ ...frame, note: "x".repeat(1_048_576) }),
  }),
  attack(
    "the offer is above the maximum coefficient",
    ends("PRICE_ABOVE_MAX", "offer"),
    {},
    { maxCoefficient: 1499 },
  ),
  // The status is not 401, because Node's WebSocket then repeats the request with the same header.
  ...[403, 429, 503].map((status) =>
    attack(`the upgrade is refused with ${status}`, ends("CONNECTION_FAILED", "connection"), {
      status,
    }),
  ),
  attack("the server selects another subprotocol", ends("CONNECTION_FAILED", "connection"), {
    protocol: "confidential.v2",
  }),
];

const groups = { transcript, keysets, evidence, frames };
for (const [group, cases] of Object.entries(groups)) {
  describe(`no session is opened and no prompt is sent (${group}) if`, () => {
    for (const { name, script, options, code, failing } of cases) {
      test(name, async (t) => {
        const gateway = await startFakeGateway(t, script);
        const error = await connect({ ...gateway.options, ...options }).then(
          () => assert.fail("a session was opened"),
          (reason: unknown) => reason,
        );
        assert.ok(error instanceof ConfidentialError, String(error));
        assert.equal(error.code, code, error.message);
        const failed = (error.checks ?? []).filter(({ result }) => result === "fail");
        assert.deepEqual(
          failed.map((check) => check.name),
          failing,
        );
        assert.ok(failed.every(({ why }) => why !== undefined && why !== ""));
        assert.equal(gateway.upgrades.length, 1, "one attempt");
        assert.equal(gateway.frames, 0, "no ciphertext");
        const stray = gateway.requests.filter((line) => !line.startsWith("GET /v1/confidential/e"));
        assert.deepEqual(stray, [], "no other way");
      });
    }
  });
}
