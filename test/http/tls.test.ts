import assert from "node:assert/strict";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { startTestGateway } from "sluice-gateway/testing";
import { startGateway } from "../../src/gateway/gateway.ts";
import { followTls, readTls, TlsError } from "../../src/http/tls.ts";
import type { Log } from "../../src/plugin.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { cert, key, otherCert, otherKey } from "../certificate.ts";
import { commandLine } from "../commands/command-line.ts";
import { check } from "../../src/commands/check.ts";
import { temporaryFolder } from "../store/folder.ts";

const pipeline = `version: 1
server: { port: "\${PORT:-0}", tls: { cert: ./tls.crt, key: ./tls.key } }
admin: { port: "\${ADMIN_PORT:-0}" }
store: { data: "\${DATA_DIR:-./data}" }
routes:
  - { path: /, methods: [GET], run: [request-id], to: front-page }
`;

function write(folder: string, certificate: string, privateKey: string) {
  const files = { cert: join(folder, "tls.crt"), key: join(folder, "tls.key") };
  writeFileSync(files.cert, certificate);
  writeFileSync(files.key, privateKey);
  return files;
}

async function get(url: string, path: string, ca: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const client = request(url + path, { ca, agent: false }, (response) => {
    response.resume().on("end", () => resolve(response.statusCode));
  });
  client.on("error", reject).end();
  return promise;
}

test("a listener with TLS serves routes and health over HTTPS, and refuses plain HTTP", async () => {
  await using started = await startTestGateway({
    pipeline,
    prepare: (folder) => void write(folder, cert, key),
  });
  const { url } = started;
  assert.match(url, /^https:/);
  assert.equal(await get(url, "/", cert), 200);
  assert.equal(await get(url, "/healthz", cert), 200);
  assert.equal(await get(url, "/missing", cert), 404);
  await assert.rejects(get(url, "/", otherCert));
  await assert.rejects(fetch(url.replace("https:", "http:")));
  // A client that can speak both chooses HTTP/2.
  const socket = connect({
    port: Number(new URL(url).port),
    host: "127.0.0.1",
    ca: cert,
    ALPNProtocols: ["h2", "http/1.1"],
  });
  await once(socket, "secureConnect");
  assert.equal(socket.alpnProtocol, "h2");
  socket.destroy();
});

test("a new certificate is used for new connections; one that cannot be used is not", async (t) => {
  const folder = temporaryFolder(t);
  const files = write(folder, cert, key);
  const clock = manualClock();
  const lines: string[] = [];
  const log: Log = {
    debug() {},
    info: (_, message) => lines.push(message),
    warn() {},
    error: (fields, message) => lines.push(`${message}: ${(fields as { reason?: string }).reason}`),
    child: () => log,
  };
  const used: string[] = [];
  const server = {
    setSecureContext: (options: { cert?: unknown }) => void used.push(String(options.cert)),
  };
  using _following = followTls(server, files, readTls(files), { clock, log });
  clock.advance(60_000);
  assert.deepEqual([used, lines], [[], []]);

  write(folder, otherCert, key);
  clock.advance(60_000);
  rmSync(files.key);
  clock.advance(60_000);
  assert.deepEqual(used, []);
  const kept = "the new certificate cannot be used; the listener keeps the previous one";
  assert.deepEqual(lines.splice(0), [
    `${kept}: cannot use the certificate ${files.cert} with the key ${files.key}: they do not belong together`,
    `${kept}: cannot read ${files.key} (ENOENT)`,
  ]);

  write(folder, otherCert, otherKey);
  clock.advance(60_000);
  assert.deepEqual(used, [otherCert]);
  assert.deepEqual(lines, ["the new certificate is in use"]);
});

test("a running listener presents the new certificate", async () => {
  const clock = manualClock();
  await using started = await startTestGateway({
    pipeline,
    clock,
    prepare: (folder) => void write(folder, cert, key),
  });
  assert.equal(await get(started.url, "/healthz", cert), 200);
  write(started.folder, otherCert, otherKey);
  clock.advance(10_000);
  assert.equal(await get(started.url, "/healthz", otherCert), 200);
});

test("a certificate that cannot be used is a fault of the check and of the start", async (t) => {
  const { run, folder, configFile } = commandLine(t);
  writeFileSync(configFile, pipeline);
  const { cert: certFile } = write(folder, "no certificate", key);
  const { code, out } = await run(check);
  assert.equal(code, 1);
  assert.match(out[0] ?? "", /:2:\d+ {2}SLUICE_TLS_INVALID {2}cannot use the certificate/);
  rmSync(certFile);
  assert.match((await run(check)).out[0] ?? "", /SLUICE_TLS_INVALID {2}cannot read .*ENOENT/);
  await assert.rejects(startGateway({ configFile, env: {} }), /SLUICE_TLS_INVALID/);
  assert.throws(() => readTls({ cert: certFile, key: certFile }), TlsError);
});
