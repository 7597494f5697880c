/** Uncaught errors in a separate process: the gateway logs why it ends, drains, and exits with 1. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { spawnGateway, type GatewayProcess } from "./gateway-process.ts";
import { closed, listening } from "./rpc-node.ts";

/** The module of this plugin throws in a timer, or leaves a rejection unhandled, on request. */
const plugin = `
const breaks = {
  timer: () => setTimeout(() => { throw new Error("a bug in a timer"); }),
  rejection: () => { void Promise.reject(new Error("a bug in a promise")); },
  twice: () => { breaks.timer(); setTimeout(breaks.timer, 300); },
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
  readonly lines: () => readonly Record<string, unknown>[];
}

async function withStream(work: (running: Running) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-fatal-"));
  const { promise: arrived, resolve } = Promise.withResolvers<ServerResponse>();
  const server = createServer((_, res) => resolve(res));
  const url = await listening(server);
  try {
    await writeFile(join(folder, "acme-breaks.mjs"), plugin);
    const file = join(folder, "pipeline.yaml");
    await writeFile(file, pipeline(url));
    const gateway = await spawnGateway(file, { DATA_DIR: join(folder, "data") });
    let written = "";
    gateway.child.stdout?.on("data", (piece: Buffer) => (written += piece.toString()));
    const lines = (): Record<string, unknown>[] =>
      written.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as never]));
    const read = gateway.child.stdout === null ? undefined : once(gateway.child.stdout, "end");
    const exited = Promise.all([gateway.exited, read]).then(([exit]) => exit);
    const asked = fetch(`${gateway.url}/held`);
    const upstream = await arrived;
    upstream.write("first ");
    const answer = await asked;
    await work({ gateway, exited, body: answer.text(), upstream, lines });
  } finally {
    await closed(server);
    await rm(folder, { recursive: true, force: true });
  }
}

for (const [kind, origin] of [
  ["timer", "uncaughtException"],
  ["rejection", "unhandledRejection"],
] as const) {
  test(`if a ${kind} of a plugin fails, one fatal line is logged, the running stream finishes, and the exit code is 1`, async () => {
    await withStream(async ({ gateway, exited, body, upstream, lines }) => {
      assert.equal((await fetch(`${gateway.url}/break?${kind}`)).status, 200);
      // When the port closes, the drain has begun.
      const refused = () =>
        fetch(`${gateway.url}/healthz`).then(
          () => false,
          () => true,
        );
      while (!(await refused()));
      upstream.end("last");
      assert.equal(await body, "first last");
      assert.deepEqual(await exited, [1, null]);
      const fatal = lines().filter(({ level }) => level === 60);
      assert.equal(fatal.length, 1);
      const [line] = fatal;
      assert.equal(line?.["plugin"], "acme-breaks");
      assert.equal(line?.["origin"], origin);
      assert.match(JSON.stringify(line?.["err"]), /a bug in a (timer|promise)/);
    });
  });
}

test("a second fatal error during the drain ends the process at once", async () => {
  await withStream(async ({ gateway, exited, body, lines }) => {
    const cut = assert.rejects(body);
    await fetch(`${gateway.url}/break?twice`);
    assert.deepEqual(await exited, [1, null]);
    await cut;
    assert.equal(lines().filter(({ level }) => level === 60).length, 2);
  });
});
