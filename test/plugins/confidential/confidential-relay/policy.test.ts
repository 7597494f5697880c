/** The policy document that a gateway signs itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readPolicy } from "../../../../plugins/confidential/protocol/policy-document.ts";
import {
  createPolicy,
  policySigner,
} from "../../../../plugins/confidential/confidential-relay/policy.ts";
import { policyOf } from "../../../../plugins/confidential/enclave-workers/policy.ts";
import type { VerificationPolicy } from "../../../../plugins/confidential/verify/policy.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

const hourMs = 3_600_000;

async function serialAt(policy: ReturnType<typeof createPolicy>): Promise<unknown> {
  const bytes = fromBase64Url((await policy()).policy) ?? new Uint8Array();
  // The document's own bytes.
  return (JSON.parse(Buffer.from(bytes).toString()) as { serial: unknown }).serial;
}

test("replicas that started at different times serve the same serial, which increases every hour", async () => {
  const begun = Date.UTC(2026, 10, 21, 8);
  const started = (ms: number): [ManualClock, ReturnType<typeof createPolicy>] => {
    const clock = manualClock(begun + ms);
    return [clock, createPolicy([], policySigner(createSeal("secret")), clock)];
  };
  const replicas = [started(1_000), started(hourMs - 60_000)];
  for (const [, policy] of replicas) assert.equal(await serialAt(policy), begun / 1000);
  for (const [clock, policy] of replicas) {
    clock.advance(begun + hourMs - clock.now());
    assert.equal(await serialAt(policy), (begun + hourMs) / 1000);
  }
});

test("the document repeats what pipeline.yaml requires of SEV-SNP evidence", async () => {
  const evidence: VerificationPolicy = {
    imageHashes: ["a".repeat(64)],
    sevSnp: { minTcb: { Genoa: { snp: 27 } }, requireCrl: true },
  };
  const network = { name: "alpha", evidence };
  const document = await createPolicy(
    [network],
    policySigner(createSeal("secret")),
    manualClock(0),
  )();
  const bytes = Buffer.from(document.policy, "base64url");
  const read = readPolicy(JSON.parse(bytes.toString()));
  assert.ok(typeof read !== "string", JSON.stringify(read));
  assert.deepEqual(read.networks["alpha"]?.worker?.sev_snp, {
    min_tcb: { Genoa: { snp: 27 } },
    require_crl: true,
  });
  // The gateway itself verifies under the same conditions as the clients of its document.
  assert.deepEqual(policyOf(evidence)(undefined).sevSnp, evidence.sevSnp);
});

test("the policy key of a secret never changes, because clients have pinned it", async () => {
  const { key } = await createPolicy([], policySigner(createSeal("secret")), manualClock(0))();
  assert.equal(key, "m8l3FLtlsBkMz78S4GVxsUeF0ERaqfQuq_-jnrzRMzo");
});
