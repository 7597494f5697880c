import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as fc from "fast-check";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import {
  readPolicy,
  readPolicyDocument,
  signPolicy,
  writePolicy,
  type ConfidentialPolicy,
  type PolicyExpectation,
} from "../../../../plugins/confidential/protocol/policy-document.ts";
import { bytesOf, unwrap, textOf } from "./session.ts";

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
