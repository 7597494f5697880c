/** The JSON of the protocol: strict and canonical JSON, text frames, and the policy document. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { canonicalBytes, toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readJsonObject } from "../../../../plugins/confidential/protocol/strict-json.ts";
import {
  readTextFrame,
  usageOf,
  writeAttestation,
  writeReportFrame,
} from "../../../../plugins/confidential/protocol/text-frames.ts";
import { bytesOf, codeOf, shake, unwrap, textOf } from "./session.ts";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  readPolicy,
  readPolicyDocument,
  signPolicy,
  writePolicy,
  type ConfidentialPolicy,
  type PolicyExpectation,
} from "../../../../plugins/confidential/protocol/policy-document.ts";

const canonical = (value: unknown): string | undefined => {
  const bytes = canonicalBytes(value);
  return bytes === undefined ? undefined : textOf(bytes);
};
const strict = (text: string): unknown => readJsonObject(bytesOf(text), 1_000_000);

/** Up to the depth at which both implementations agree. */
const nested = (depth: number): string => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;

describe("canonical JSON", () => {
  test("RFC 8785, 3.2.2: numbers, strings and literals", () => {
    const text = `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
      "string":"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}`;
    assert.equal(
      canonical(JSON.parse(text)),
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });
});

describe("strict JSON", () => {
  test("accepts only an object in plain UTF-8 within its limits", () => {
    for (const text of ["[]", '"a"', "1", "null", "", "{", '{"a":1,}', "{'a':1}", '{"a":01}']) {
      assert.equal(strict(text), undefined, text);
    }
    assert.equal(strict("\u{feff}{}"), undefined);
    assert.equal(readJsonObject(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d), 100), undefined);
    assert.deepEqual(readJsonObject(bytesOf("{}"), 2), {});
    assert.equal(readJsonObject(bytesOf("{} "), 2), undefined);
    assert.notEqual(strict(nested(127)), undefined);
    assert.equal(strict(nested(128)), undefined);
    assert.equal(strict(nested(100_000)), undefined);
  });
});

describe("text frames", () => {
  const sig = new Uint8Array(64).fill(5);
  const report = bytesOf("{}");

  test("an attestation is read as it was written, with evidence or its digest", async () => {
    const { core, sig: signature } = (await shake()).answer;
    const evidence = { tee_type: "simulated", quote: "AA==", simulated: true };
    const full = unwrap(readTextFrame(bytesOf(writeAttestation(core, signature, { evidence }))));
    assert.ok(full.kind === "attestation");
    assert.deepEqual(full.core, Uint8Array.from(core));
    assert.deepEqual(full.sig, Uint8Array.from(signature));
    assert.deepEqual(full.evidence, evidence);
    const digest = `sha256:${"3".repeat(64)}`;
    const known = writeAttestation(core, signature, { evidence_digest: digest });
    const short = unwrap(readTextFrame(bytesOf(known)));
    assert.ok(short.kind === "attestation");
    assert.equal(short.evidenceDigest, digest);
    for (const text of [
      known.replace(digest, "sha256:3"),
      known.replace("evidence_digest", "other"),
      known.replace('"sig":"', '"sig":"A'),
      known.replace('"core"', '"coal"'),
    ]) {
      assert.equal(codeOf(readTextFrame(bytesOf(text))), "BAD_FRAME");
    }
  });

  test("a report frame is read as it was written", () => {
    const frame = unwrap(readTextFrame(bytesOf(writeReportFrame(3, report, sig))));
    assert.deepEqual(frame, { kind: "report", rid: 3, report, sig });
    const text = writeReportFrame(3, report, sig);
    for (const wrong of [text.replace("3", "-3"), text.replace('"sig"', '"sign"')]) {
      assert.equal(codeOf(readTextFrame(bytesOf(wrong))), "BAD_FRAME");
    }
  });

  test("a done frame is read with its tokens, with or without a report", () => {
    const tokens = { prompt: 9, completion: 5, cached: 4, reasoning: 2 };
    const done = { type: "done", rid: 1, usage: usageOf(tokens), usedCUMilli: 12, pricing: {} };
    const frame = unwrap(readTextFrame(bytesOf(JSON.stringify(done))));
    assert.ok(frame.kind === "done");
    assert.deepEqual(frame.usage, { ...tokens, total: 14 });
    assert.equal(frame.usedMilliCu, 12);
    assert.equal(frame.report, undefined);
    const plain = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const brief = unwrap(readTextFrame(bytesOf(JSON.stringify({ ...done, usage: plain }))));
    assert.ok(brief.kind === "done");
    const none = { cached: 0, reasoning: 0 };
    assert.deepEqual(brief.usage, { prompt: 1, completion: 2, total: 3, ...none });
    for (const members of [
      { rid: "1" },
      { usage: null },
      { usage: {} },
      { usedCUMilli: -1 },
      { paidBeforeCUMilli: "6" },
    ]) {
      const text = JSON.stringify({ ...done, ...members });
      assert.equal(codeOf(readTextFrame(bytesOf(text))), "BAD_FRAME");
    }
  });

  test("an error frame has a code only if the protocol defines it", () => {
    const frame = (members: object): object =>
      readTextFrame(bytesOf(JSON.stringify({ type: "error", ...members })));
    assert.deepEqual(frame({ code: "REPLAY" }), { kind: "error", code: "REPLAY" });
    assert.deepEqual(frame({ code: "toString" }), { kind: "error", code: undefined });
    assert.deepEqual(frame({}), { kind: "error", code: undefined });
  });
});

describe("untrusted text", () => {
  test("a string of backslashes and quotes as long as a frame is read in one pass", () => {
    const text = `{"a":"${"\\\\".repeat(250_000)}","b":"${'\\"'.repeat(200_000)}"}`;
    assert.notEqual(strict(text), undefined);
    assert.equal(strict(text.replace('"b"', '"a"')), undefined);
  });
});

const signer = createSigner();
const now = Date.UTC(2026, 10, 21, 12);
const image = "a".repeat(64);
const written = {
  v: 1,
  serial: 7,
  issued_at: "2026-11-21T11:00:00Z",
  expires_at: "2026-12-21T11:00:00+00:00",
  networks: {
    "confidential-alpha": { termination: "worker", worker: { image_hashes: [image] } },
    "confidential-classic": {
      termination: "gateway",
      gateway: {
        image_hashes: [image],
        mrseam: ["b".repeat(96)],
        advisories: ["INTEL-SA-01111"],
        min_tcb_evaluation: 17,
        sev_snp: { min_tcb: { Genoa: { snp: 27, microcode: 84 } }, require_crl: true },
      },
    },
  },
};

function read(value: unknown): ConfidentialPolicy {
  const policy = readPolicy(value);
  assert.ok(typeof policy !== "string", JSON.stringify(policy));
  return policy;
}

const policy = read(written);
const bytes = unwrap(writePolicy(policy));
const expected: PolicyExpectation = { key: signer.publicKey, now };

function open(document: unknown, changes: Partial<PolicyExpectation> = {}): Promise<unknown> {
  return readPolicyDocument(nodeSuite, document, { ...expected, ...changes });
}

describe("a policy written by an operator", () => {
  test("is read completely, and missing lists are empty", () => {
    assert.deepEqual(policy.networks["confidential-alpha"], {
      termination: "worker",
      worker: { image_hashes: [image], mrseam: [], advisories: [] },
    });
    assert.deepEqual(
      policy.networks["confidential-classic"],
      written.networks["confidential-classic"],
    );
    assert.equal(policy.expires_at, "2026-12-21T11:00:00.000Z");
  });

  test("requires a revocation list of SEV-SNP evidence unless it opts out by name", () => {
    const member = (sev_snp: object): unknown => {
      const entry = { termination: "worker", worker: { image_hashes: [image], sev_snp } };
      return read({ ...written, networks: { alpha: entry } }).networks["alpha"]?.worker?.sev_snp;
    };
    assert.deepEqual(member({ min_tcb: "any" }), { min_tcb: "any", require_crl: true });
    const waived = { min_tcb: { Turin: { fmc: 1 } }, require_crl: false };
    assert.deepEqual(member(waived), waived);
  });

  const network = (entry: unknown): unknown => ({ ...written, networks: { alpha: entry } });
  const worker = (members: object): unknown =>
    network({ termination: "worker", worker: { image_hashes: [], ...members } });
  const snp = (min_tcb: unknown, more: object = {}): unknown =>
    worker({ sev_snp: { min_tcb, ...more } });
  const wrong: readonly (readonly [string, unknown])[] = [
    ["the policy is not", []],
    ["v:", { ...written, v: 2 }],
    ["serial:", { ...written, serial: "7" }],
    ["serial:", { ...written, serial: 1.5 }],
    ["issued_at:", { ...written, issued_at: 1_790_000_000 }],
    ["expires_at:", { ...written, expires_at: "soon" }],
    ["expires_at:", { ...written, expires_at: written.issued_at }],
    ["networks:", { ...written, networks: [] }],
    ["note:", { ...written, note: "" }],
    ["networks.alpha.termination:", network(null)],
    ["networks.alpha.termination:", network({ termination: "relay" })],
    ["networks.alpha.images:", network({ termination: "worker", images: [] })],
    ["networks.alpha.worker.image_hashes:", network({ termination: "worker", worker: {} })],
    ["networks.alpha.worker.image_hashes:", worker({ image_hashes: "any" })],
    ["networks.alpha.worker.image_hashes:", worker({ image_hashes: [image.toUpperCase()] })],
    ["networks.alpha.worker.mrseam:", worker({ mrseam: [image] })],
    ["networks.alpha.worker.advisories:", worker({ advisories: ["intel sa"] })],
    ["networks.alpha.worker.min_tcb_evaluation:", worker({ min_tcb_evaluation: -1 })],
    ["networks.alpha.worker.debug:", worker({ debug: true })],
    ["networks.alpha.worker.sev_snp:", worker({ sev_snp: "any" })],
    ["networks.alpha.worker.sev_snp.min_tcb:", worker({ sev_snp: { require_crl: false } })],
    ["networks.alpha.worker.sev_snp.min_tcb:", worker({ sev_snp: { min_tcb: {} } })],
    ["networks.alpha.worker.sev_snp.min_tcb.Rome:", snp({ Rome: { snp: 1 } })],
    ["networks.alpha.worker.sev_snp.min_tcb.Milan:", snp({ Milan: {} })],
    ["networks.alpha.worker.sev_snp.min_tcb.Milan.ucode:", snp({ Milan: { ucode: 1 } })],
    ["networks.alpha.worker.sev_snp.min_tcb.Milan.snp:", snp({ Milan: { snp: 256 } })],
    ["networks.alpha.worker.sev_snp.require_crl:", snp("any", { require_crl: "no" })],
    ["networks.alpha.worker.sev_snp.vmpl:", snp("any", { vmpl: 2 })],
  ];
  test("is refused with the path of the wrong member", () => {
    for (const [start, value] of wrong) {
      const fault = readPolicy(value);
      assert.ok(typeof fault === "string" && fault.startsWith(start), JSON.stringify(fault));
    }
  });
});

describe("a policy document", () => {
  test("is read back by the pinned key, in Node's cryptography and the browser's", async () => {
    const document: unknown = JSON.parse(JSON.stringify(await signPolicy(bytes, signer)));
    for (const suite of [nodeSuite, webSuite]) {
      assert.deepEqual(await readPolicyDocument(suite, document, expected), policy);
    }
  });

  test("is refused with a different key, even one that the document names", async () => {
    const other = createSigner();
    const document = await signPolicy(bytes, other);
    assert.equal(await open(document), "the document has a different key than the pinned one");
    const disguised = { ...document, key: toBase64Url(signer.publicKey) };
    assert.equal(await open(disguised), "the signature of the document is not valid");
  });

  test("is refused if it has expired or was issued in the future", async () => {
    const document = await signPolicy(bytes, signer);
    assert.equal(
      await open(document, { now: Date.parse(policy.expires_at) }),
      "the policy has expired",
    );
    const early = Date.parse(policy.issued_at) - 300_001;
    assert.equal(await open(document, { now: early }), "the policy was issued in the future");
    assert.deepEqual(await open(document, { now: early + 1 }), policy);
  });

  test("is refused if its signed bytes are ambiguous JSON", async () => {
    const doubled = bytesOf(textOf(bytes).replace('"serial":7', '"serial":9,"serial":7'));
    assert.equal(await open(await signPolicy(doubled, signer)), "the policy is not strict JSON");
    const unknown = bytesOf(textOf(bytes).replace('"serial":7', '"only":"x","serial":7'));
    assert.equal(await open(await signPolicy(unknown, signer)), "only: is not known");
  });

  test("that is any other value is refused without an exception", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        assert.equal(typeof readPolicy(value), "string");
        assert.equal(typeof (await open(value)), "string");
      }),
      { numRuns: 200 },
    );
    const document = await signPolicy(bytes, signer);
    for (const member of ["policy", "sig", "key"]) {
      for (const value of [undefined, null, 1, "", "!"]) {
        assert.equal(typeof (await open({ ...document, [member]: value })), "string");
      }
    }
  });
});
