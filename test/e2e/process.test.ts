/** Tests that need a process: signals, its end, what it loads, and what it has sent and released when it has ended. */
import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { start } from "../../src/commands/start.ts";
import { openReceiver } from "../plugins/edge/trace/otlp-receiver.ts";
import { temporaryFolder } from "../store/folder.ts";
import { ask } from "./ask.ts";
import { sourceMain, spawnGateway, type GatewayProcess } from "./gateway-process.ts";
import { closed, listening } from "./rpc-node.ts";

/** `more`: lines after the routes. */
const pipeline = (upstream: string, more = ""): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0.2, drainSeconds: 10 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { plain: { urls: "${upstream}" } }
unmatched: [request-id, trace]
routes:
  - { path: /held, methods: [GET], run: [request-id, trace], to: { forward: { upstream: plain } } }
${more}`;

/** Runs before the gateway: records every module of OpenTelemetry that is loaded, by either module system. */
const spy = `
import { appendFileSync } from "node:fs";
import { registerHooks } from "node:module";
registerHooks({
  load(url, context, next) {
    const found = /\\/node_modules\\/(@opentelemetry\\/[^/]+)\\//.exec(url);
    if (found !== null) appendFileSync(process.env.LOADED, found[1] + "\\n");
    return next(url, context);
  },
});
`;

async function heldUpstream(): Promise<
  { url: string; arrived: Promise<ServerResponse> } & AsyncDisposable
> {
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_req, res) => resolve(res));
  const url = await listening(server);
  return { url, arrived, [Symbol.asyncDispose]: () => closed(server) };
}

interface Folder {
  readonly file: string;
  readonly env: Readonly<Record<string, string>>;
  /** Starts a gateway, which is killed at the end of the test if it still runs. */
  readonly start: (more?: Readonly<Record<string, string>>) => Promise<GatewayProcess>;
  /** Packages of OpenTelemetry that gateways of this folder have loaded. */
  readonly loaded: () => ReadonlySet<string>;
}

function folderWith(t: TestContext, text: string): Folder {
  const folder = temporaryFolder(t);
  const at = (name: string): string => join(folder, name);
  const file = at("pipeline.yaml");
  writeFileSync(file, text);
  writeFileSync(at("spy.mjs"), spy);
  writeFileSync(at("loaded"), "");
  const env = {
    // Removes the effect of the machine's own variables: an empty variable counts as not set.
    OTEL_EXPORTER_OTLP_ENDPOINT: "",
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "",
    OTEL_TRACES_EXPORTER: "",
    OTEL_SDK_DISABLED: "",
    NODE_OPTIONS: `--import ${pathToFileURL(at("spy.mjs")).href}`,
    LOADED: at("loaded"),
    DATA_DIR: at("data"),
  };
  return {
    file,
    env,
    async start(more = {}) {
      // The built package contains OpenTelemetry, so that the hook would not see that it is loaded.
      const gateway = await spawnGateway(file, { ...env, ...more }, { command: sourceMain });
      t.after(() => gateway.child.kill("SIGKILL"));
      return gateway;
    },
    loaded: () =>
      new Set(
        readFileSync(at("loaded"), "utf8")
          .split("\n")
          .filter((name) => name !== ""),
      ),
  };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const deadline = AbortSignal.timeout(10_000);
  while (!(await holds())) deadline.throwIfAborted();
}

test("SIGHUP reloads the file; SIGTERM ends readiness at once, lets the running request finish, and exits with 0", async (t) => {
  await using upstream = await heldUpstream();
  const folder = folderWith(t, pipeline(upstream.url));
  const gateway = await folder.start();
  const { url, adminUrl, child } = gateway;

  const extra = "  - { path: /extra, methods: [GET], to: { forward: { upstream: plain } } }";
  writeFileSync(folder.file, pipeline(upstream.url, extra));
  child.kill("SIGHUP");
  await until(async () => {
    const { routes } = (await ask(`${adminUrl}/pipelines`)).json as { routes: { path: string }[] };
    return routes.some(({ path }) => path === "/extra");
  });

  await t.test(
    "a second gateway on the same data folder does not start, and reports the reason",
    () => assert.rejects(folder.start(), /SLUICE_STORE_IN_USE/),
  );

  for (let i = 0; i < 100; i++) await ask(`${url}/${i}`);
  assert.equal((await ask(`${url}/healthz`)).status, 200);
  assert.equal((await ask(`${adminUrl}/readyz`)).status, 200);
  const running = ask(`${url}/held`);
  const res = await upstream.arrived;
  child.kill("SIGTERM");
  await until(async () => (await ask(`${adminUrl}/readyz`)).status === 503);
  await until(() =>
    ask(`${url}/healthz`).then(
      () => false,
      () => true,
    ),
  );
  assert.equal((await ask(`${adminUrl}/healthz`)).status, 200, "admin closes last");
  res.end("finished");
  assert.equal((await running).text, "finished");
  assert.deepEqual(await gateway.exited, [0, null]);

  await t.test("without its variables, nothing of OpenTelemetry is loaded for traces", () => {
    // prom-client loads the interfaces, which do nothing by themselves. They show that the recorder works.
    assert.deepEqual([...folder.loaded()], ["@opentelemetry/api"]);
  });

  await t.test(
    "the next gateway on the folder starts; a collector that never answers does not keep the process alive longer than the stop waits for it",
    async () => {
      await using collector = await heldUpstream();
      writeFileSync(folder.file, pipeline(collector.url));
      const next = await folder.start({
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        // The exporter itself times out after ten minutes.
        OTEL_EXPORTER_OTLP_TIMEOUT: "600000",
      });
      const asked = ask(`${next.url}/held`);
      (await collector.arrived).end("answered");
      assert.equal((await asked).text, "answered");
      next.child.kill("SIGTERM");
      assert.deepEqual(await next.exited, [0, null]);
    },
  );
});

test("with an endpoint, every span has arrived there when SIGTERM has ended the process", async (t) => {
  await using receiver = await openReceiver();
  const folder = folderWith(t, pipeline("http://127.0.0.1:9"));
  const gateway = await folder.start({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_SERVICE_NAME: "edge",
  });
  for (let i = 0; i < 100; i++) await ask(`${gateway.url}/${i}`);
  gateway.child.kill("SIGTERM");
  assert.deepEqual(await gateway.exited, [0, null]);
  const loaded = folder.loaded();
  assert.ok(loaded.has("@opentelemetry/sdk-trace"));
  assert.ok(loaded.has("@opentelemetry/exporter-trace-otlp-proto"));
  assert.equal(receiver.spans.length, 100);
  const paths = new Set(receiver.spans.map((span) => span.attributes["url.path"]));
  assert.deepEqual(paths, new Set(Array.from({ length: 100 }, (_, i) => `/${i}`)));
  assert.ok(receiver.spans.every((span) => span.resource["service.name"] === "edge"));
});

test("a port in use and an invalid file each stop the start with one fault and its position", async (t) => {
  await using upstream = await heldUpstream();
  const { file, env } = folderWith(t, pipeline(upstream.url));
  const failure = async (): Promise<string> => {
    const errors: string[] = [];
    const context = {
      env: { ...env, PORT: new URL(upstream.url).port, ADMIN_PORT: "0" },
      print: () => {},
      printToStderr: (line: string) => void errors.push(line),
      configFile: file,
      signal: AbortSignal.timeout(60_000),
      json: true,
    };
    assert.equal(await start.run(context, {}, []), 1);
    return errors.join("\n");
  };
  assert.match(await failure(), /SLUICE_LISTEN_FAILED .*EADDRINUSE/);
  writeFileSync(file, pipeline(upstream.url, "  - { path: /x, to: forwrd }"));
  assert.match(
    await failure(),
    /pipeline\.yaml:10:\d+ {2}SLUICE_PLUGIN_UNKNOWN .*\n {4}did you mean "forward"\?/,
  );
});
