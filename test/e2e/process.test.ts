import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { spawnGateway } from "./gateway-process.ts";
import { closed, listening } from "./rpc-node.ts";

const pipeline = (upstream: string, more = ""): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0.2, drainSeconds: 10 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { plain: { urls: "${upstream}" } }
unmatched: [request-id]
routes:
  - { path: /held, methods: [GET], run: [request-id], to: { forward: { upstream: plain } } }
${more}`;

async function heldUpstream(): Promise<
  { url: string; arrived: Promise<ServerResponse> } & AsyncDisposable
> {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_req, res) => resolve(res));
  const url = await listening(server);
  return { url, arrived, [Symbol.asyncDispose]: () => closed(server) };
}

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-process-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function until(ask: () => Promise<boolean>): Promise<void> {
  const deadline = AbortSignal.timeout(10_000);
  while (!(await ask())) deadline.throwIfAborted();
}

test("SIGTERM ends readiness at once, lets the running request finish, and exits with 0", async () => {
  await withFolder(async (folder) => {
    await using upstream = await heldUpstream();
    const file = join(folder, "pipeline.yaml");
    await writeFile(file, pipeline(upstream.url));
    const gateway = await spawnGateway(file, { DATA_DIR: join(folder, "data") });
    const health = await fetch(`${gateway.url}/healthz`);
    assert.equal(health.status, 200);
    assert.equal((await fetch(`${gateway.adminUrl}/readyz`)).status, 200);
    const running = fetch(`${gateway.url}/held`);
    const res = await upstream.arrived;
    gateway.child.kill("SIGTERM");
    await until(async () => (await fetch(`${gateway.adminUrl}/readyz`)).status === 503);
    await until(() =>
      fetch(`${gateway.url}/healthz`).then(
        () => false,
        () => true,
      ),
    );
    assert.equal((await fetch(`${gateway.adminUrl}/healthz`)).status, 200, "admin closes last");
    res.end("finished");
    assert.equal(await (await running).text(), "finished");
    assert.deepEqual(await gateway.exited, [0, null]);
  });
});

test("SIGHUP reloads the file", async () => {
  await withFolder(async (folder) => {
    await using upstream = await heldUpstream();
    const file = join(folder, "pipeline.yaml");
    await writeFile(file, pipeline(upstream.url));
    const gateway = await spawnGateway(file, { DATA_DIR: join(folder, "data") });
    const extra = "  - { path: /extra, methods: [GET], to: { forward: { upstream: plain } } }";
    await writeFile(file, pipeline(upstream.url, extra));
    gateway.child.kill("SIGHUP");
    await until(async () => {
      const { routes } = (await (await fetch(`${gateway.adminUrl}/pipelines`)).json()) as {
        routes: { path: string }[];
      };
      return routes.some(({ path }) => path === "/extra");
    });
    gateway.child.kill("SIGTERM");
    assert.deepEqual(await gateway.exited, [0, null]);
  });
});

test("a second gateway on the same data folder does not start, and reports the reason", async () => {
  await withFolder(async (folder) => {
    await using upstream = await heldUpstream();
    const file = join(folder, "pipeline.yaml");
    await writeFile(file, pipeline(upstream.url));
    const env = { DATA_DIR: join(folder, "data") };
    const first = await spawnGateway(file, env);
    await assert.rejects(spawnGateway(file, env), /SLUICE_STORE_IN_USE/);
    first.child.kill("SIGTERM");
    await first.exited;
    const again = await spawnGateway(file, env);
    again.child.kill("SIGTERM");
    assert.deepEqual(await once(again.child, "exit"), [0, null]);
  });
});

test("a port in use and an invalid file each stop the start with one fault and its position", async () => {
  await withFolder(async (folder) => {
    await using upstream = await heldUpstream();
    const file = join(folder, "pipeline.yaml");
    await writeFile(file, pipeline(upstream.url));
    const { port } = new URL(upstream.url);
    const env = { DATA_DIR: join(folder, "data"), PORT: port };
    await assert.rejects(spawnGateway(file, env), /SLUICE_LISTEN_FAILED .*EADDRINUSE/);
    await writeFile(file, pipeline(upstream.url, "  - { path: /x, to: forwrd }"));
    await assert.rejects(
      spawnGateway(file, env),
      /pipeline\.yaml:10:\d+ {2}SLUICE_PLUGIN_UNKNOWN .*\n {4}did you mean "forward"\?/,
    );
  });
});

test("a collector that never answers does not keep the process alive longer than the stop waits for it", async () => {
  await withFolder(async (folder) => {
    // The exporter itself times out after ten minutes.
    await using collector = await heldUpstream();
    const file = join(folder, "pipeline.yaml");
    await writeFile(
      file,
      pipeline(collector.url).replace("run: [request-id]", "run: [request-id, trace]"),
    );
    const gateway = await spawnGateway(file, {
      DATA_DIR: join(folder, "data"),
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
    });
    const asked = fetch(`${gateway.url}/held`);
    (await collector.arrived).end("answered");
    assert.equal(await (await asked).text(), "answered");
    gateway.child.kill("SIGTERM");
    assert.deepEqual(await gateway.exited, [0, null]);
  });
});
