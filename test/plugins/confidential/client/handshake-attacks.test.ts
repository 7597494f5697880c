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
import type { TdxCollateral } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import { bytesOf, unwrap, textOf, withFlippedBit } from "../protocol/session.ts";
import { day, otherPlatform, platform, seconds, start, startFakeGateway } from "./fake-gateway.ts";
import type { Json, Script } from "./fake-gateway.ts";

interface Case {
  readonly name: string;
  readonly script: Script;
  readonly options?: Partial<ConnectOptions>;
  readonly code: ConfidentialCode;
  /** The checks that fail, in order. */
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

function collateralWith(
  change: (collateral: TdxCollateral, reportData: Uint8Array) => Partial<TdxCollateral>,
): Script["evidence"] {
  return (evidence, reportData) => {
    const collateral = unwrap(evidence.collateral);
    return { ...evidence, collateral: { ...collateral, ...change(collateral, reportData) } };
  };
}

/** Collateral that is valid, or of another platform, or of another time. */
function collateralOf(from: typeof platform, at: number): TdxCollateral {
  return unwrap(from.evidence(new Uint8Array(64), at).collateral);
}

const refusedAnswer = { code: "ATTESTATION_UNAVAILABLE", failing: ["handshake"] } as const;
const refused = (...failing: string[]): Pick<Case, "code" | "failing"> => ({
  code: "EVIDENCE_REFUSED",
  failing,
});

/** Points of low order and values that reduce to them (RFC 7748, 6.1, and Bernstein's list). */
const lowOrder = [
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
  "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

const transcript: readonly Case[] = [
  ...[12, 100, -2].map((at) => ({
    name: `a bit of hello is turned, at ${at}`,
    script: { hello: (bytes: Bytes) => withFlippedBit(bytes, at < 0 ? bytes.length + at : at) },
    ...refusedAnswer,
  })),
  {
    name: "a relay rewrites hello with its members in another order",
    script: { hello: helloWith((hello) => Object.fromEntries(Object.entries(hello).toReversed())) },
    ...refusedAnswer,
  },
  {
    name: "a relay rewrites hello with a space",
    script: { hello: (bytes) => bytesOf(textOf(bytes).replace(":", ": ")) },
    ...refusedAnswer,
  },
  ...[
    { suite: "p256-hkdf-sha256-aes256gcm" },
    { v: 2 },
    { pad: 0 },
    { termination: "gateway" },
  ].map((members) => ({
    name: `a relay asks for ${JSON.stringify(members)}`,
    script: { hello: helloWith((hello) => ({ ...hello, ...members })) },
    ...refusedAnswer,
  })),
  {
    name: "a bit of core is flipped, and core is still JSON",
    script: {
      attestation: changed("core", (core) => {
        const text = textOf(core);
        const at = text.indexOf('"session":"') + 12;
        const other = text[at] === "A" ? "B" : "A";
        return bytesOf(text.slice(0, at) + other + text.slice(at + 1));
      }),
    },
    ...refusedAnswer,
  },
  {
    name: "a bit of core is flipped, and core is no longer JSON",
    script: { attestation: changed("core", (core) => withFlippedBit(core, 0)) },
    code: "BAD_FRAME",
    failing: ["handshake"],
  },
  ...[0, 31, 32, 63].map((at) => ({
    name: `a bit of sig is turned, at ${at}`,
    script: { attestation: changed("sig", (sig) => withFlippedBit(sig, at)) },
    ...refusedAnswer,
  })),
  {
    name: "another key signs the handshake",
    script: { handshakeSigner: createSigner() },
    ...refusedAnswer,
  },
  {
    name: "core has another version",
    script: { core: (core) => bytesOf(textOf(writeCore(core)).replace('"v":1', '"v":2')) },
    code: "SUITE_UNSUPPORTED",
    failing: ["handshake"],
  },
  {
    name: "core has a duplicate member",
    script: { core: (core) => bytesOf(textOf(writeCore(core)).replace('"v":1', '"v":1,"v":1')) },
    code: "BAD_FRAME",
    failing: ["handshake"],
  },
  ...lowOrder.map((hex) => ({
    name: `the enclave's key is of low order: ${hex.slice(0, 8)}`,
    script: {
      core: (core: Parameters<typeof writeCore>[0]) =>
        writeCore({ ...core, epk: Uint8Array.from(Buffer.from(hex, "hex")) }),
    },
    code: "BAD_FRAME" as const,
    failing: ["session_keys"],
  })),
];

const keysets: readonly Case[] = [
  { name: "the keyset has expired", script: { keyset: { notAfter: seconds } }, ...refusedAnswer },
  {
    name: "the keyset is valid for more than an hour",
    script: { keyset: { notAfter: seconds + 3601 } },
    ...refusedAnswer,
  },
  { name: "the role is the gateway's", script: { keyset: { role: "gateway" } }, ...refusedAnswer },
  {
    name: "the role is the worker's, although the gateway's enclave was requested",
    script: { keyset: { role: "worker" } },
    options: { termination: "gateway" },
    ...refusedAnswer,
  },
  { name: "the keyset is for another network", script: { keyset: { net: "x" } }, ...refusedAnswer },
  {
    name: "the quote is for another keyset",
    script: { reportData: (bytes) => withFlippedBit(bytes, 8) },
    ...refused("report_data"),
  },
  {
    name: "the quote is a platform quote",
    script: { reportData: () => new Uint8Array(64).fill(7) },
    ...refused("report_data"),
  },
];

const hour = 3_600_000;
const evidence: readonly Case[] = [
  {
    name: "simulated evidence is not allowed",
    script: {},
    options: { allowSimulated: false },
    ...refused("not_simulated"),
  },
  {
    name: "no test root is listed",
    script: {},
    options: { simulatedRoots: [] },
    ...refused("not_simulated"),
  },
  {
    name: "another test root is listed",
    script: {},
    options: { simulatedRoots: [otherPlatform.root] },
    ...refused(
      "pck_chain",
      "tcb_info_signature",
      "qe_identity_signature",
      "dcap_qvl",
      "tcb_status",
    ),
  },
  {
    name: "simulated evidence claims to be hardware",
    script: {
      evidence: ({ simulated: _, ...rest }) => ({ ...rest, tee_type: "tdx" }),
    },
    ...refused(
      "pck_chain",
      "tcb_info_signature",
      "qe_identity_signature",
      "dcap_qvl",
      "tcb_status",
    ),
  },
  {
    name: "simulated evidence lacks its marker",
    script: { state: { isUnmarked: true } },
    // Its registers differ as well.
    ...refused("not_simulated", "image_hash"),
  },
  { name: "the evidence is missing", script: { evidence: () => ({}) }, ...refused("evidence") },
  {
    name: "the TD can be debugged",
    script: { state: { isDebug: true } },
    ...refused("dcap_qvl", "tcb_status", "td_attributes"),
  },
  {
    name: "the platform is OutOfDate",
    script: { state: { tcbStatus: "OutOfDate" } },
    ...refused("tcb_status"),
  },
  {
    name: "the platform has an advisory that the policy does not list",
    script: { state: { tcbStatus: "SWHardeningNeeded", advisories: ["INTEL-SA-1"] } },
    options: { advisories: ["INTEL-SA-2"] },
    ...refused("tcb_status"),
  },
  {
    name: "the machine has been revoked",
    script: { state: { revoked: ["pck"] } },
    ...refused("revocation", "dcap_qvl", "tcb_status"),
  },
  ...(["root_ca_crl", "pck_crl"] as const).flatMap((list) => {
    const check = list === "pck_crl" ? "pck_crl" : "root_crl";
    const old = collateralOf(platform, start - 60 * day)[list];
    const foreign = collateralOf(otherPlatform, start)[list];
    return [
      { what: "empty", value: "" },
      { what: "garbage", value: "00ff00ff" },
      { what: "expired", value: old },
      { what: "another platform's", value: foreign },
    ].map(({ what, value }) => ({
      name: `${list} is ${what}`,
      script: { evidence: collateralWith(() => ({ [list]: value })) },
      ...refused(check),
    }));
  }),
  {
    name: "the collateral has expired",
    script: { state: { issuedAt: start - 31 * day } },
    ...refused(
      "root_crl",
      "pck_crl",
      "collateral_dates",
      "collateral_age",
      "dcap_qvl",
      "tcb_status",
    ),
  },
  {
    name: "the collateral is valid, but too old",
    script: { state: { issuedAt: start - 40 * day, lifetimeMs: 90 * day } },
    ...refused("collateral_age"),
  },
  {
    name: "the collateral's TCB evaluation number is too low",
    script: { state: { tcbEvaluation: 19 } },
    options: { minTcbEvaluation: 20 },
    ...refused("tcb_evaluation"),
  },
  {
    name: "the collateral is missing",
    script: { evidence: ({ collateral: _, ...rest }) => rest },
    ...refused("collateral_format"),
  },
  {
    name: "the image is unknown",
    script: {},
    options: { imageHashes: ["f".repeat(64)] },
    ...refused("image_hash"),
  },
  {
    name: "the machine is unknown",
    script: {},
    options: { platforms: ["f".repeat(32)] },
    ...refused("platform"),
  },
  {
    name: "a bit of the quote is flipped",
    script: {
      evidence: (given) => ({
        ...given,
        quote: Buffer.from(withFlippedBit(Buffer.from(given.quote, "base64"), 200)).toString(
          "base64",
        ),
      }),
    },
    ...refused("quote_signature", "dcap_qvl", "tcb_status", "image_hash"),
  },
  {
    name: "the evidence does not match its digest",
    script: { attestation: (frame) => ({ ...frame, evidence_digest: `sha256:${"0".repeat(64)}` }) },
    code: "ATTESTATION_UNAVAILABLE",
    failing: ["evidence_given"],
  },
  {
    name: "the evidence cannot be found by its digest",
    script: {
      attestation: ({ evidence: _, ...frame }) => ({
        ...frame,
        evidence_digest: `sha256:${"0".repeat(64)}`,
      }),
    },
    code: "ATTESTATION_UNAVAILABLE",
    failing: ["evidence_given"],
  },
  {
    name: "the caller's collateral is for another platform",
    script: { evidence: ({ collateral: _, ...rest }) => rest },
    options: { collateral: collateralOf(otherPlatform, start - hour) },
    ...refused(
      "tcb_info_signature",
      "qe_identity_signature",
      "root_crl",
      "pck_crl",
      "dcap_qvl",
      "tcb_status",
    ),
  },
];

const frames: readonly Case[] = [
  {
    name: "an error frame arrives",
    script: { attestation: () => ({ type: "error", error: "no", code: "MODEL_NOT_AVAILABLE" }) },
    code: "MODEL_NOT_AVAILABLE",
    failing: ["answer"],
  },
  {
    name: "an error frame with an unknown code arrives",
    script: { attestation: () => ({ type: "error", error: "use http", code: "USE_PLAINTEXT" }) },
    code: "CONNECTION_CLOSED",
    failing: ["answer"],
  },
  {
    name: "an encrypted frame arrives first",
    script: { attestation: () => new Uint8Array(64) },
    code: "BAD_FRAME",
    failing: ["answer"],
  },
  {
    name: "a report arrives first",
    script: { attestation: () => ({ type: "report", rid: 1, report: "", sig: "A".repeat(86) }) },
    code: "BAD_FRAME",
    failing: ["answer"],
  },
  {
    name: "the frame has a duplicate member",
    script: {
      attestation: (frame) => JSON.stringify(frame).replace('"type":', '"core":"","type":'),
    },
    code: "BAD_FRAME",
    failing: ["answer"],
  },
  {
    name: "the frame is too long",
    script: { attestation: (frame) => ({ ...frame, note: "x".repeat(1_048_576) }) },
    code: "CONNECTION_CLOSED",
    failing: ["answer"],
  },
  {
    name: "the offer is above the maximum coefficient",
    script: {},
    options: { maxCoefficient: 1499 },
    code: "PRICE_ABOVE_MAX",
    failing: ["offer"],
  },
  // The status is not 401, because Node's WebSocket then repeats the request with the same header.
  ...[403, 429, 503].map((status) => ({
    name: `the upgrade is refused with ${status}`,
    script: { status },
    code: "CONNECTION_FAILED" as const,
    failing: ["connection"],
  })),
  {
    name: "the server selects another subprotocol",
    script: { protocol: "confidential.v2" },
    code: "CONNECTION_FAILED",
    failing: ["connection"],
  },
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
