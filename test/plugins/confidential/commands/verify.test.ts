/** `sluice verify`, `sluice policy`, and the documents that gateways and clients accept from it. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { describe, test } from "node:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError, type CommandContext } from "../../../../src/commands/command.ts";
import { verify } from "../../../../plugins/confidential/commands/verify.ts";
import { platform, startFakeGateway } from "../client/fake-gateway.ts";
import { commandLine, type CommandLine } from "../../../commands/command-line.ts";
import { policy } from "../../../../plugins/confidential/commands/policy.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { readPolicyDocument } from "../../../../plugins/confidential/protocol/policy-document.ts";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { listen } from "../../../../src/http/demo-server.ts";

/** The command uses the system clock. */
const atWall = { at: Date.now() };
const target = ["--network", "confidential-alpha", "--model", "demo", "--key", "gateway_dev_key"];
const simulated = ["--allow-simulated", "--simulated-root", platform.root];

describe("sluice verify", () => {
  test("prints every check, accepts, and sends no prompt", async (t) => {
    const gateway = await startFakeGateway(t, {}, atWall);
    const { run } = commandLine(t);
    const { code, out } = await run(verify, gateway.url, ...target, ...simulated);
    const lines = out.join("\n").split("\n");
    assert.equal(code, 0, out.join("\n"));
    assert.ok(lines.some((line) => /^pass {5}quote_signature +that key signed/.test(line)));
    assert.ok(
      lines.some((line) =>
        /^skipped {2}mrseam +the policy lists no TDX module; not checked: the policy/.test(line),
      ),
    );
    assert.ok(lines.includes(`image: ${platform.imageHash}`));
    assert.match(
      lines.at(-1) ?? "",
      /^accepted: confidential-alpha demo, encryption ends at the worker; SIMULATED/,
    );
    assert.equal(gateway.frames, 0);
    assert.equal(gateway.upgrades.length, 1);
  });

  // Finding D20: the output had `FAIL not_simulated` above `accepted`.
  test("prints a failed check that an option accepts as a warning", async (t) => {
    const gateway = await startFakeGateway(t, {}, atWall);
    const { run, json } = commandLine(t);
    const { out } = await run(verify, gateway.url, ...target, ...simulated);
    const text = out.join("\n");
    const why =
      "the evidence is simulated: no hardware attests it; accepted because --allow-simulated is set";
    assert.match(text, new RegExp(`^WARN {5}not_simulated +${why}$`, "m"));
    assert.doesNotMatch(text, /FAIL/);
    const report = await json(verify, gateway.url, ...target, ...simulated);
    const checks = report["checks"] as { name: string; result: string; why?: string }[];
    const simulation = checks.find(({ name }) => name === "not_simulated");
    assert.deepEqual(simulation, { name: "not_simulated", result: "warn", why });
    assert.ok(checks.every(({ result }) => result !== "fail"));
    assert.partialDeepStrictEqual(report, {
      accepted: true,
      verified: false,
      assurance: "simulated",
      image_hash: platform.imageHash,
      termination: "worker",
    });
    const refused = await run(verify, gateway.url, ...target, "--simulated-root", platform.root);
    assert.equal(refused.code, 1);
    assert.match(refused.out.join("\n"), /^FAIL {5}not_simulated/m);
    assert.doesNotMatch(refused.out.join("\n"), /WARN|^accepted/m);
    for (const [hash, expected] of [
      ["f".repeat(64), 1],
      [platform.imageHash.toUpperCase(), 0],
    ] as const) {
      const image = ["--image-hash", hash];
      const { code } = await run(verify, gateway.url, ...target, ...simulated, ...image);
      assert.equal(code, expected);
    }
  });

  test("reads minimum TCBs per product, and refuses invalid ones", async (t) => {
    const gateway = await startFakeGateway(t, {}, atWall);
    const { run } = commandLine(t);
    const floors = ["--min-tcb", "Genoa=snp:27,microcode:84", "--min-tcb", "Milan=snp:29"];
    const { code } = await run(verify, gateway.url, ...target, ...simulated, ...floors);
    assert.equal(code, 0);
    const any = await run(verify, gateway.url, ...target, ...simulated, "--min-tcb", "any");
    assert.equal(any.code, 0);
    for (const wrong of ["Genoa", "Genoa=", "Genoa=snp:x", "Rome=snp:1", "Genoa=snp:256"]) {
      await assert.rejects(
        run(verify, gateway.url, ...target, ...simulated, "--min-tcb", wrong),
        (error) => error instanceof UsageError && error.message.includes(`"${wrong}"`),
        wrong,
      );
    }
  });

  test("refuses the evidence that a client refuses, and prints the failed check", async (t) => {
    const gateway = await startFakeGateway(t, { state: { isDebug: true } }, atWall);
    const { run } = commandLine(t);
    const { code, out } = await run(verify, gateway.url, ...target, ...simulated, "--json");
    assert.equal(code, 1);
    const report = JSON.parse(out[0] ?? "") as Record<string, unknown>;
    assert.equal(report["accepted"], false);
    assert.equal(report["code"], "EVIDENCE_REFUSED");
    const checks = report["checks"] as { name: string; result: string; why?: string }[];
    const failed = checks.find(({ name }) => name === "td_attributes");
    assert.deepEqual(failed, {
      name: "td_attributes",
      result: "fail",
      why: "the TD can be debugged",
    });
    const printed = await run(verify, gateway.url, ...target, ...simulated);
    assert.equal(printed.code, 1);
    assert.match(printed.out.join("\n"), /^FAIL {5}td_attributes +the TD can be debugged$/m);
    assert.match(printed.out.join("\n"), /^refused: confidential-alpha demo: /m);
  });

  test("finds network and model in the catalogue", async (t) => {
    const gateway = await startFakeGateway(t, {}, atWall);
    const { run } = commandLine(t);
    const without = ["--key", "gateway_dev_key", ...simulated];
    const none = await run(verify, gateway.url, ...without);
    assert.equal(none.code, 1);
    assert.match(none.err.join("\n"), /models could not be read: status 404\. Pass --network and/);
    const away = await run(verify, "http://127.0.0.1:9", ...without);
    assert.match(away.err.join("\n"), /models could not be read\. Pass --network and --model/);
    gateway.models = { data: [] };
    const empty = await run(verify, gateway.url, ...without);
    assert.match(empty.err.join("\n"), /lists no such model with evidence\. Pass --network/);
    gateway.models = {
      data: [
        { id: "plain", network: "confidential-classic", evidence: "none" },
        { id: "old", network: "confidential-classic" },
        { id: "demo", network: "confidential-alpha", evidence: "simulated" },
      ],
    };
    const found = await run(verify, `${gateway.url}/v1/confidential/stream`, ...without);
    assert.equal(found.code, 0, found.out.join("\n"));
    assert.equal(gateway.requests.at(-1), "GET /v1/models Bearer gateway_dev_key");
    assert.equal(gateway.hellos[0]?.model, "demo");
    const other = await run(verify, gateway.url, ...without, "--model", "plain");
    assert.equal(other.code, 1);
  });

  test("prints no control characters from untrusted texts", async (t) => {
    const server = createServer((_, response) => response.writeHead(500).end("\x1b[2J"));
    const url = await listen(server, 0, "127.0.0.1");
    t.after(() => server.close());
    const { run } = commandLine(t);
    const evil = ["--network", "a\x1b[2J", "--model", "m", "--key", "k"];
    const { code, out } = await run(verify, url, ...evil);
    assert.equal(code, 1);
    // oxlint-disable-next-line no-control-regex
    assert.doesNotMatch(out.join("\n"), /\x1b/);
  });

  test("stops at a signal", async (t) => {
    const gateway = await startFakeGateway(t, { isSilent: true }, atWall);
    const stopping = new AbortController();
    const err: string[] = [];
    const context: CommandContext = {
      env: { SLUICE_API_KEY: "gateway_dev_key" },
      print: (line) => assert.fail(line),
      printToStderr: (line) => void err.push(line),
      configFile: "",
      signal: stopping.signal,
      json: false,
    };
    const values = { network: "confidential-alpha", model: "demo" };
    const running = verify.run(context, values, [gateway.url]);
    while (gateway.hellos.length === 0) await new Promise((resolve) => setImmediate(resolve));
    stopping.abort();
    assert.equal(await running, 1);
    assert.deepEqual(err, ["stopped by a signal"]);
    assert.equal(gateway.upgrades[0]?.authorization, "Bearer gateway_dev_key");
  });

  test("reports errors in the command line", async (t) => {
    const { run } = commandLine(t);
    const wrong: readonly (readonly string[])[] = [
      [],
      ["http://127.0.0.1:1", "more", ...target],
      ["nowhere", ...target],
      ["http://127.0.0.1:1", "--network", "a", "--model", "b"],
      ["http://127.0.0.1:1", ...target, "--termination", "relay"],
      ["http://127.0.0.1:1", ...target, "--policy-key", "short"],
      ["ftp://127.0.0.1:1", ...target],
    ];
    for (const argv of wrong)
      await assert.rejects(run(verify, ...argv), UsageError, argv.join(" "));
  });
});

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
