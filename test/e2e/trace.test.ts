/** A gateway in its own process: which modules it loads for traces, and which spans have been sent when it ends. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { openReceiver } from "../plugins/edge/trace/otlp-receiver.ts";
import { spawnGateway } from "./gateway-process.ts";

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams: { none: { urls: "http://127.0.0.1:9" } }
unmatched: [request-id, trace]
routes:
  - { path: /a, methods: [GET], run: [trace], to: { forward: { upstream: none } } }
`;

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

/** Starts a gateway, requests 100 unknown paths, ends it, and returns the packages that it loaded. */
async function packagesLoaded(
  t: TestContext,
  otel: Readonly<Record<string, string>>,
): Promise<ReadonlySet<string>> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-trace-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const [configFile, spyFile, loaded] = ["pipeline.yaml", "spy.mjs", "loaded"].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  await writeFile(configFile, pipeline);
  await writeFile(spyFile, spy);
  await writeFile(loaded, "");
  const gateway = await spawnGateway(configFile, {
    // Removes the effect of the machine's own variables: an empty variable counts as not set.
    OTEL_EXPORTER_OTLP_ENDPOINT: "",
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "",
    OTEL_TRACES_EXPORTER: "",
    OTEL_SDK_DISABLED: "",
    NODE_OPTIONS: `--import ${pathToFileURL(spyFile).href}`,
    LOADED: loaded,
    DATA_DIR: join(folder, "data"),
    ...otel,
  });
  t.after(() => gateway.child.kill("SIGKILL"));
  for (let i = 0; i < 100; i++) await (await fetch(`${gateway.url}/${i}`)).text();
  gateway.child.kill("SIGTERM");
  assert.deepEqual(await gateway.exited, [0, null]);
  return new Set((await readFile(loaded, "utf8")).split("\n").filter((name) => name !== ""));
}

test("without the variables, nothing of OpenTelemetry is loaded for traces", async (t) => {
  const loaded = await packagesLoaded(t, {});
  // prom-client loads the interfaces, which do nothing by themselves. They show that the recorder works.
  assert.deepEqual([...loaded], ["@opentelemetry/api"]);
});

test("with an endpoint, every span has arrived there when SIGTERM has ended the process", async (t) => {
  await using receiver = await openReceiver();
  const loaded = await packagesLoaded(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_SERVICE_NAME: "edge",
  });
  assert.ok(loaded.has("@opentelemetry/sdk-trace"));
  assert.ok(loaded.has("@opentelemetry/exporter-trace-otlp-proto"));
  assert.equal(receiver.spans.length, 100);
  const paths = new Set(receiver.spans.map((span) => span.attributes["url.path"]));
  assert.deepEqual(paths, new Set(Array.from({ length: 100 }, (_, i) => `/${i}`)));
  assert.ok(receiver.spans.every((span) => span.resource["service.name"] === "edge"));
});
