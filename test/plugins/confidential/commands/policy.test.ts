/** `sluice policy`, and the documents that gateways and clients accept from it. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { policy } from "../../../../plugins/confidential/commands/policy.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readPolicyDocument } from "../../../../plugins/confidential/protocol/policy-document.ts";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";

const written = `
v: 1
serial: 7
issued_at: 2026-11-21T12:00:00Z
expires_at: 2026-12-21T12:00:00Z
networks:
  alpha:
    termination: worker
    worker: { image_hashes: [${"b2".repeat(32)}] }
`;

function files(
  line: CommandLine,
  kind: "ed25519" | "x25519" = "ed25519",
): { file: string; key: string } {
  const file = join(line.folder, "policy.yaml");
  const key = join(line.folder, "key.pem");
  // The overloads of node:crypto accept only one kind each.
  const { privateKey } =
    kind === "ed25519" ? generateKeyPairSync("ed25519") : generateKeyPairSync("x25519");
  writeFileSync(file, written);
  writeFileSync(key, privateKey.export({ format: "pem", type: "pkcs8" }));
  return { file, key };
}

const now = Date.parse("2026-12-01T00:00:00Z");

test("a client with that key accepts the printed document", async (t) => {
  const line = commandLine(t);
  const { file, key } = files(line);
  const { code, out, err } = await line.run(policy, "sign", file, "--key", key);
  assert.equal(code, 0);
  const document = JSON.parse(out.join("")) as { key: string };
  assert.match(err.join(""), new RegExp(document.key));
  const pinned = fromBase64Url(document.key);
  assert.ok(pinned !== undefined);
  const read = await readPolicyDocument(nodeSuite, document, { key: pinned, now });
  assert.partialDeepStrictEqual(read, {
    serial: 7,
    networks: { alpha: { termination: "worker" } },
  });
});

test("an invalid policy or key is reported, and nothing is printed", async (t) => {
  const line = commandLine(t);
  const { file, key } = files(line);
  const other = files(commandLine(t), "x25519").key;
  const bad = join(line.folder, "bad.yaml");
  writeFileSync(bad, written.replace("serial: 7", "serial: many"));
  for (const [what, ...argv] of [
    ["serial", bad, "--key", key],
    ["ENOENT", join(line.folder, "none.yaml"), "--key", key],
    ["cannot read a private key", file, "--key", file],
    ["Ed25519", file, "--key", other],
  ] as const) {
    const { code, out, err } = await line.run(policy, "sign", ...argv);
    assert.deepEqual([code, out], [1, []]);
    assert.ok(err.join("").includes(what), `${what}: ${err.join("")}`);
  }
});

test("a gateway serves a document that was signed elsewhere, and refuses an invalid one", async (t) => {
  const line = commandLine(t);
  const { file, key } = files(line);
  writeFileSync(file, written.replaceAll("2026", "2999").replace("2999-11", "2000-11"));
  const { out } = await line.run(policy, "sign", file, "--key", key);
  const signed = out.join("");
  const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes:
  - path: /.well-known/confidential-policy.json
    methods: [GET]
    run: []
    to: { confidential: { do: policy, document: ./policy.json } }
`;
  const start = (text: string): ReturnType<typeof startTestGateway> =>
    startTestGateway({
      pipeline,
      prepare: (folder) => writeFileSync(join(folder, "policy.json"), text),
    });
  await using gateway = await start(signed);
  const answer = await fetch(`${gateway.url}/.well-known/confidential-policy.json`);
  assert.equal(await answer.text(), signed);
  await assert.rejects(start(signed.replace('"sig":"', '"sig":"A')), /SLUICE_PLUGIN_START/);
  await assert.rejects(start("no json"), /SLUICE_PLUGIN_START/);
});
