/** TLS of the public listener, and the state machine that replaces certificates, with a manual clock. */
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
import { createMetrics } from "../../src/base/metrics.ts";
import { manualClock, type ManualClock } from "../../src/testing/clock.ts";
import { cert, expiredCert, expiredKey, key, otherCert, otherKey } from "../certificate.ts";
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

const kept = "the new certificate cannot be used; the listener keeps the previous one";
/** A time at which the certificates that are valid until 2126 are valid. */
const year2027 = Date.UTC(2027, 0, 15);

interface Following extends Disposable {
  /** The certificates that the listener was given after its start. */
  readonly used: string[];
  readonly lines: string[];
  /** Values of the metrics: whether a reload failed, and when the certificate in use expires. */
  metrics(): { readonly failed: number | undefined; readonly expires: number | undefined };
}

function following(files: ReturnType<typeof write>, clock: ManualClock): Following {
  const lines: string[] = [];
  const log: Log = {
    debug() {},
    info: (_, message) => lines.push(message),
    warn() {},
    error: (fields, message) => {
      const { reason } = fields as { readonly reason?: string };
      lines.push(reason === undefined ? message : `${message}: ${reason}`);
    },
    child: () => log,
  };
  const used: string[] = [];
  const server = {
    setSecureContext: (options: { cert?: unknown }) => void used.push(String(options.cert)),
  };
  const metrics = createMetrics();
  const valueOf = (name: string) => metrics.read(`sluice_tls_${name}`)[0]?.value;
  const timer = followTls(server, files, readTls(files), { clock, log, metrics });
  return {
    used,
    lines,
    metrics: () => ({
      failed: valueOf("reload_failed"),
      expires: valueOf("expires_timestamp_seconds"),
    }),
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}

test("a new certificate is used for new connections; one that cannot be used is not", (t) => {
  const folder = temporaryFolder(t);
  const files = write(folder, cert, key);
  const clock = manualClock(year2027);
  using listener = following(files, clock);
  const { used, lines } = listener;
  clock.advance(60_000);
  assert.deepEqual([used, lines], [[], []]);
  assert.deepEqual(listener.metrics(), { failed: 0, expires: Date.UTC(2126, 9, 28, 0, 22) / 1000 });

  write(folder, otherCert, key);
  clock.advance(60_000);
  assert.equal(listener.metrics().failed, 1);
  rmSync(files.key);
  clock.advance(60_000);
  assert.deepEqual(used, []);
  assert.deepEqual(lines.splice(0), [
    `${kept}: cannot use the certificate ${files.cert} with the key ${files.key}: they do not belong together`,
    `${kept}: cannot read ${files.key} (ENOENT)`,
  ]);

  write(folder, otherCert, otherKey);
  clock.advance(60_000);
  assert.deepEqual(used, [otherCert]);
  assert.deepEqual(lines, ["the new certificate is in use"]);
  assert.equal(listener.metrics().failed, 0);
});

test("an expired certificate does not replace a valid one, and the log says so once", (t) => {
  const folder = temporaryFolder(t);
  const files = write(folder, cert, key);
  const clock = manualClock(year2027);
  using listener = following(files, clock);
  write(folder, expiredCert, expiredKey);
  clock.advance(60_000);
  assert.deepEqual(listener.used, []);
  assert.deepEqual(listener.lines, [
    `${kept}: the certificate ${files.cert} expired at 2026-04-01T00:00:00.000Z`,
  ]);
  assert.equal(listener.metrics().failed, 1);
  write(folder, cert, key);
  clock.advance(60_000);
  assert.equal(listener.metrics().failed, 0);
});

test("a certificate that is not valid yet replaces a valid one when its time has come", (t) => {
  const folder = temporaryFolder(t);
  const files = write(folder, expiredCert, expiredKey);
  // Both certificates for 2126 begin in November 2026, after the end of this one: between them, none is valid.
  const clock = manualClock(Date.UTC(2026, 2, 1));
  using listener = following(files, clock);
  write(folder, cert, key);
  clock.advance(60_000);
  assert.deepEqual(listener.used, []);
  assert.match(listener.lines[0] ?? "", /is valid only from 2026-11-21T00:22:00.000Z on$/);
  clock.jump(300 * 86_400_000);
  clock.advance(10_000);
  assert.deepEqual(listener.used, [cert]);
});

test("a certificate in use is logged when it expires within ten days, and when it has expired", (t) => {
  const files = write(temporaryFolder(t), expiredCert, expiredKey);
  const clock = manualClock(Date.UTC(2026, 2, 21));
  using listener = following(files, clock);
  const expires = "the certificate of the listener expires at 2026-04-01T00:00:00.000Z";
  assert.deepEqual(listener.lines, []);
  clock.jump(2 * 86_400_000);
  clock.advance(60_000);
  assert.deepEqual(listener.lines.splice(0), [expires]);
  clock.jump(10 * 86_400_000);
  clock.advance(60_000);
  assert.deepEqual(listener.lines, [expires.replace("expires", "expired")]);
});

test("a gateway starts with an expired certificate and logs it; check --strict reports it", async (t) => {
  await using started = await startTestGateway({
    pipeline,
    prepare: (folder) => void write(folder, expiredCert, expiredKey),
  });
  const problem = /certificate of the listener expired at 2026-04-01/;
  assert.ok(started.lines.some((line) => problem.test(line)));
  assert.match(
    await (await fetch(`${started.adminUrl}/metrics`)).text(),
    /^sluice_tls_expires_timestamp_seconds 1775001600$/m,
  );
  const { run, folder, configFile } = commandLine(t);
  writeFileSync(configFile, pipeline);
  write(folder, expiredCert, expiredKey);
  assert.equal((await run(check)).code, 0);
  const { out } = await run(check, "--strict");
  assert.match(
    out.join("\n"),
    /:2:\d+ {2}SLUICE_STRICT_CERTIFICATE {2}the certificate .* expired at/,
  );
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
