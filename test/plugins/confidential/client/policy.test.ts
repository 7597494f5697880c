/** Checks that a client makes before it opens a connection, if it pins the key of the policy. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  connect,
  ConfidentialError,
  createClientMemory,
} from "../../../../plugins/confidential/client/client.ts";
import type { ConnectOptions } from "../../../../plugins/confidential/client/client.ts";
import { readOptions } from "../../../../plugins/confidential/client/options.ts";
import { readSessionPolicy } from "../../../../plugins/confidential/client/policy.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import type { EnclavePolicy } from "../../../../plugins/confidential/protocol/policy-document.ts";
import type { Signer } from "../../../../plugins/confidential/protocol/suite.ts";
import type { SnpPolicy } from "../../../../plugins/confidential/verify/policy.ts";
import { policyBy, start, startFakeGateway } from "./fake-gateway.ts";
import type { Edition, FakeGateway } from "./fake-gateway.ts";

const signer = createSigner();
const policyKey = toBase64Url(signer.publicKey);
const documentOf = ({ by = signer, ...edition }: Edition & { by?: Signer } = {}) =>
  policyBy(by, { serial: 7, ...edition });

function pinned(gateway: FakeGateway, changes: Partial<ConnectOptions> = {}): ConnectOptions {
  const { imageHashes: _, ...options } = gateway.options;
  return { ...options, policyKey, ...changes };
}

async function refusal(options: ConnectOptions): Promise<ConfidentialError> {
  const error = await connect(options).then(
    () => assert.fail("a session was opened"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ConfidentialError, String(error));
  return error;
}

describe("a client that pins the policy key", () => {
  test("takes the accepted images and the termination from the document", async (t) => {
    const gateway = await startFakeGateway(t);
    gateway.policy = await documentOf();
    const session = await connect(pinned(gateway));
    assert.equal(session.termination, "worker");
    assert.deepEqual(session.checks[0], { name: "policy", result: "pass" });
    assert.deepEqual(gateway.requests, [
      "GET /.well-known/confidential-policy.json Bearer gateway_dev_key",
    ]);
    await session.close();
  });

  test("takes the conditions for SEV-SNP from the document, unless the caller sets its own", async (t) => {
    const gateway = await startFakeGateway(t);
    const sev_snp = { min_tcb: { Genoa: { snp: 27 } }, require_crl: false };
    gateway.policy = await documentOf({ worker: { sev_snp } });
    const conditions = async (sevSnp?: SnpPolicy): Promise<unknown> => {
      const settings = readOptions(pinned(gateway, sevSnp && { sevSnp }));
      const policy = await readSessionPolicy(settings, AbortSignal.timeout(10_000));
      return typeof policy === "string" ? policy : policy.policyFor("sev-snp").sevSnp;
    };
    const minTcb = { Genoa: { snp: 27 } };
    assert.deepEqual(await conditions(), { minTcb, requireCrl: false });
    assert.deepEqual(await conditions({ maxVmpl: 2 }), { minTcb, requireCrl: false, maxVmpl: 2 });
    assert.deepEqual(await conditions({ minTcb: "any", requireCrl: true }), {
      minTcb: "any",
      requireCrl: true,
    });
    gateway.policy = await documentOf();
    assert.deepEqual(await conditions(), {});
  });

  const refused: readonly (readonly [
    string,
    (Edition & { by?: Signer }) | "none" | "garbage",
    Partial<ConnectOptions>,
  ])[] = [
    ["the policy document is missing", "none", {}],
    ["the policy document is another document", "garbage", {}],
    ["another key signed the policy document", { by: createSigner() }, {}],
    ["the policy document has expired", { expiresAt: start }, {}],
    ["the policy document does not list the network", { network: "constructor" }, {}],
    [
      "the termination of the network differs",
      { termination: "gateway" },
      { termination: "worker" },
    ],
  ];
  for (const [name, edition, options] of refused) {
    test(`opens no connection when ${name}`, async (t) => {
      const gateway = await startFakeGateway(t);
      if (edition === "garbage") gateway.policy = { policy: 1 };
      else if (edition !== "none") gateway.policy = await documentOf(edition);
      const error = await refusal(pinned(gateway, options));
      assert.equal(error.code, "POLICY_REFUSED", error.message);
      assert.deepEqual(
        error.checks?.map((check) => [check.name, check.result]),
        [["policy", "fail"]],
      );
      assert.equal(gateway.upgrades.length, 0);
    });
  }

  test("accepts termination at the gateway's enclave only if the document has a policy for it", async (t) => {
    const gateway = await startFakeGateway(t);
    gateway.policy = await documentOf({ termination: "gateway" });
    const error = await refusal(pinned(gateway));
    assert.equal(error.code, "EVIDENCE_REFUSED");
    assert.equal(gateway.hellos[0]?.termination, "gateway");
    assert.match(error.message, /^the evidence is refused: image_hash: /);
  });

  const limits: readonly (readonly [string, Partial<EnclavePolicy>, string])[] = [
    ["list of images", { image_hashes: ["f".repeat(64)] }, "image_hash"],
    ["empty list of images", { image_hashes: [] }, "image_hash"],
    ["list of TDX modules", { mrseam: ["f".repeat(96)] }, "mrseam"],
    ["minimum TCB evaluation number", { min_tcb_evaluation: 21 }, "tcb_evaluation"],
  ];
  for (const [what, worker, failing] of limits) {
    test(`enforces the document's ${what}`, async (t) => {
      const gateway = await startFakeGateway(t);
      gateway.policy = await documentOf({ worker });
      const error = await refusal(pinned(gateway));
      assert.equal(error.code, "EVIDENCE_REFUSED");
      const failed = (error.checks ?? []).filter(({ result }) => result === "fail");
      assert.deepEqual(
        failed.map(({ name }) => name),
        [failing],
      );
    });
  }

  test("accepts only the advisories that the document lists", async (t) => {
    const state = { tcbStatus: "SWHardeningNeeded", advisories: ["INTEL-SA-1"] };
    const gateway = await startFakeGateway(t, { state });
    gateway.policy = await documentOf();
    assert.equal((await refusal(pinned(gateway))).code, "EVIDENCE_REFUSED");
    gateway.policy = await documentOf({ worker: { advisories: ["INTEL-SA-1"] } });
    await (await connect(pinned(gateway))).close();
  });

  test("refuses a serial number below the highest one seen, and stores serial numbers in the given storage", async (t) => {
    const gateway = await startFakeGateway(t);
    const serials = new Map<string, number>();
    const memory = () =>
      createClientMemory({
        highest: (name) => Promise.resolve(serials.get(name)),
        record: async (name, serial) => void serials.set(name, serial),
      });
    gateway.policy = await documentOf({ serial: 9 });
    await (await connect(pinned(gateway, { memory: memory() }))).close();
    assert.deepEqual([...serials], [[`${gateway.url} ${policyKey}`, 9]]);
    gateway.policy = await documentOf({ serial: 8 });
    const error = await refusal(pinned(gateway, { memory: memory() }));
    assert.equal(error.code, "POLICY_REFUSED");
    assert.match(error.message, /the serial 8 is below 9/);
    gateway.policy = await documentOf({ serial: 9 });
    await (await connect(pinned(gateway, { memory: memory() }))).close();
    gateway.policy = await documentOf({ serial: 10 });
    await (await connect(pinned(gateway, { memory: memory() }))).close();
    assert.deepEqual([...serials.values()], [10]);
  });
});
