/** Tests how `sluice plugin add` reads the output of `npm audit signatures`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readAudit } from "../../src/commands/plugin/provenance.ts";

const acme = { name: "acme-tenant", version: "1.2.0" };
const digest = Buffer.alloc(64, 7);
const integrity = `sha512-${digest.toString("base64")}`;

function statement(repository: string, sha512 = digest.toString("hex")): object {
  return {
    predicateType: "https://slsa.dev/provenance/v1",
    subject: [{ name: "pkg:npm/acme-tenant@1.2.0", digest: { sha512 } }],
    predicate: {
      buildDefinition: { externalParameters: { workflow: { repository, ref: "refs/tags/v1" } } },
    },
  };
}

function attested(content: object, predicateType = "https://slsa.dev/provenance/v1"): object {
  const payload = Buffer.from(JSON.stringify(content)).toString("base64");
  return {
    ...acme,
    attestationBundles: [{ predicateType, bundle: { dsseEnvelope: { payload } } }],
  };
}

function read(result: object): ReturnType<typeof readAudit> {
  return readAudit(JSON.stringify({ invalid: [], missing: [], ...result }), acme, integrity);
}

test("a valid attestation of the build names the repository", () => {
  const verified = [attested(statement("https://github.test/acme/tenant"))];
  assert.deepEqual(read({ verified }), {
    state: "verified",
    text: "verified: built from https://github.test/acme/tenant at refs/tags/v1",
  });
});

test("a repository cannot control the terminal", () => {
  const { text } = read({ verified: [attested(statement("https://x.test/\u001B[2J"))] });
  assert.equal(text, "verified: built from https://x.test/?[2J at refs/tags/v1");
});

test("an attestation without a source is still verified", () => {
  const { subject } = statement("x") as { subject: unknown };
  assert.deepEqual(read({ verified: [attested({ subject })] }), {
    state: "verified",
    text: "verified",
  });
});

test("an attestation of other files is refused", () => {
  const verified = [attested(statement("https://github.test/acme/tenant", "00".repeat(64)))];
  assert.throws(() => read({ verified }), /is for other files/);
});

test("an attestation of the publication only is a signature", () => {
  const type = "https://github.com/npm/attestation/tree/main/specs/publish/v0.1";
  assert.equal(read({ verified: [attested({}, type)] }).state, "signed");
  assert.equal(read({ verified: [] }).state, "signed");
});

test("packages with other names do not count", () => {
  const other = { name: "other", version: "1.2.0" };
  assert.equal(read({ invalid: [other], missing: [other] }).state, "signed");
});

test("a package without a signature is reported, and one with an invalid signature is refused", () => {
  assert.equal(read({ missing: [acme] }).state, "unsigned");
  assert.throws(() => read({ invalid: [acme] }), /signature or attestation that is not valid/);
});

test("everything else is unknown", () => {
  for (const output of ["", "[]", "{}", "null", "npm error", '{"error":{"code":"E405"}}']) {
    const { state, text } = readAudit(output, acme, integrity);
    assert.equal(state, "unknown", output);
    assert.match(text, /^unknown: npm could not check the signatures( \(E405\))?$/);
  }
});
