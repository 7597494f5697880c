/** The policy document that a gateway signs itself. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { policyOf } from "../../../../plugins/confidential/enclave-workers/policy.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readPolicyDocument } from "../../../../plugins/confidential/protocol/policy-document.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

const hourMs = 3_600_000;

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
secret: a secret of these gateways
networks:
  alpha:
    kind: enclave
    url: http://127.0.0.1:9
    evidence:
      kind: hardware
      image_hashes: [${"a".repeat(64)}]
      sev_snp: { min_tcb: { Genoa: { snp: 27 } }, require_crl: true }
routes:
  - { path: /policy, run: [], to: { confidential: { do: policy } } }
`;

async function start(t: TestContext, at: number) {
  const clock = manualClock(at);
  const gateway = await startTestGateway({ pipeline, clock });
  t.after(() => gateway[Symbol.asyncDispose]());
  const read = async () => {
    const document = await (await fetch(`${gateway.url}/policy`)).json();
    // The shape of a signed document.
    const { key: text } = document as { key: string };
    const key = fromBase64Url(text);
    assert.ok(key !== undefined);
    const content = await readPolicyDocument(nodeSuite, document, { key, now: clock.now() });
    assert.ok(typeof content !== "string", JSON.stringify(content));
    return { key: text, ...content };
  };
  return { clock, read };
}

test("replicas that started at different times serve the same serial, which increases every hour", async (t) => {
  const begun = Date.UTC(2026, 10, 21, 8);
  const first = await start(t, begun + 1_000);
  const last = await start(t, begun + hourMs - 500);
  for (const { read } of [first, last]) assert.equal((await read()).serial, begun / 1000);
  last.clock.advance(500);
  assert.equal((await last.read()).serial, (begun + hourMs) / 1000);
});

test("the document repeats what pipeline.yaml requires of SEV-SNP evidence, and its key never changes, because clients have pinned it", async (t) => {
  const { read } = await start(t, Date.UTC(2026, 10, 21, 8));
  const { key, networks } = await read();
  assert.equal(networks["alpha"]?.termination, "worker");
  assert.deepEqual(networks["alpha"].worker?.sev_snp, {
    min_tcb: { Genoa: { snp: 27 } },
    require_crl: true,
  });
  assert.equal(key, "AMKUrLYEVXgsJsTWqz9kWzOluAMquEhvzp_S35DyS-M");
});

test("the gateway itself verifies under the same conditions as the clients of its document", () => {
  const evidence = { imageHashes: ["a".repeat(64)], sevSnp: { requireCrl: true } };
  assert.deepEqual(policyOf(evidence)(undefined), evidence);
});
