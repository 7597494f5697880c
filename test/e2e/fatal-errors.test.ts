/** Uncaught errors in a separate process: the gateway logs why it ends, drains, and exits with 1. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "../store/folder.ts";
import { ask } from "./ask.ts";
import { spawnGateway, type GatewayProcess } from "./gateway-process.ts";
import { closed, listening } from "./rpc-node.ts";

/** The module of this plugin throws in a timer, or leaves a rejection unhandled, on request. */
const plugin = `
const breaks = {
  timer: () => setTimeout(() => { throw new Error("a bug in a timer"); }),
  rejection: () => { void Promise.reject(new Error("a bug in a promise")); },
  twice: () => { breaks.rejection(); setTimeout(breaks.timer, 300); },
};
export default {
  kind: "surface",
  name: "acme-breaks",
  description: "Breaks.",
  start: () => ({
    answer(x) {
      breaks[x.request.query]();
      return { status: 200 };
    },
  }),
};`;

const pipeline = (upstream: string): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0, drainSeconds: 10 }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: error }
upstreams: { plain: { urls: "${upstream}" } }
plugins: { acme-breaks: ./acme-breaks.mjs }
routes:
  - { path: /held, methods: [GET], to: { forward: { upstream: plain } } }
  - { path: /break, methods: [GET], to: acme-breaks }
`;

interface Running {
  readonly gateway: GatewayProcess;
  /** Exit code and signal of the gateway, available after its whole log has been read. */
  readonly exited: GatewayProcess["exited"];
  /** The body of a request whose answer has begun. */
  readonly body: Promise<string>;
  readonly upstream: ServerResponse;
  /** The fatal lines of the log. */
  readonly fatal: () => readonly Record<string, unknown>[];
}

async function withStream(
  t: TestContext,
  work: (running: Running) => Promise<void>,
): Promise<void> {
  const folder = temporaryFolder(t);
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_, res) => resolve(res));
  const url = await listening(server);
  t.after(() => closed(server));
  writeFileSync(join(folder, "acme-breaks.mjs"), plugin);
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline(url));
  const lines: Record<string, unknown>[] = [];
  const gateway = await spawnGateway(
    file,
    { DATA_DIR: join(folder, "data") },
    { onLine: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const read = once(gateway.child.stdout!, "end");
  const exited = Promise.all([gateway.exited, read]).then(([exit]) => exit);
  const asked = fetch(`${gateway.url}/held`);
  const upstream = await arrived;
  upstream.write("first ");
  const answer = await asked;
  const fatal = () => lines.filter(({ level }) => level === 60);
  await work({ gateway, exited, body: answer.text(), upstream, fatal });
}

test("if a timer of a plugin fails, one fatal line is logged, the running stream finishes, and the exit code is 1", async (t) => {
  await withStream(t, async ({ gateway, exited, body, upstream, fatal }) => {
    assert.equal((await ask(`${gateway.url}/break?timer`)).status, 200);
    // When the port closes, the drain has begun.
    const refused = () =>
      ask(`${gateway.url}/healthz`).then(
        () => false,
        () => true,
      );
    while (!(await refused()));
    upstream.end("last");
    assert.equal(await body, "first last");
    assert.deepEqual(await exited, [1, null]);
    const lines = fatal();
    assert.equal(lines.length, 1);
    assert.partialDeepStrictEqual(lines[0], { plugin: "acme-breaks", origin: "uncaughtException" });
    assert.match(JSON.stringify(lines[0]?.["err"]), /a bug in a timer/);
  });
});

test("a rejection that nothing handles is fatal, too, and a second fatal error during the drain ends the process at once", async (t) => {
  await withStream(t, async ({ gateway, exited, body, fatal }) => {
    const cut = assert.rejects(body);
    await ask(`${gateway.url}/break?twice`);
    assert.deepEqual(await exited, [1, null]);
    await cut;
    const lines = fatal();
    assert.equal(lines.length, 2);
    assert.partialDeepStrictEqual(lines[0], {
      plugin: "acme-breaks",
      origin: "unhandledRejection",
    });
    assert.match(JSON.stringify(lines[0]?.["err"]), /a bug in a promise/);
  });
});
