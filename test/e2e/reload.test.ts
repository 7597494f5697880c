import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { closed, listening, startRpcNode } from "./rpc-node.ts";

interface Variation {
  readonly level?: string;
  readonly extraRoute?: string;
  readonly extraStep?: string;
}

function pipeline(
  node: string,
  streams: string,
  { level, extraRoute, extraStep }: Variation = {},
): string {
  return `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams:
  ledger: { urls: "${node}" }
  streams: { urls: "${streams}", connections: 400 }
lists:
  edge: [request-id, { access-log: { level: ${level ?? "silent"} } }, authenticate, rate-limit${extraStep ?? ""}]
unmatched: [request-id]
routes:
  - { path: /v1/ledger/rpc, methods: [POST], run: [{ use: edge }, { authorize: { require: "ledger:read" } }, meter], to: { ledger-rpc: { upstream: ledger } } }
  - { path: /stream, methods: [GET], run: [{ use: edge }], to: { forward: { upstream: streams } } }
${extraRoute ?? ""}`;
}

const extraRoute = `  - { path: /extra, methods: [GET], run: [{ use: edge }], to: { forward: { upstream: streams } } }\n`;

/** The files of the 50 reloads. Every third file has a fault. The others change options, routes or steps. */
function variation(n: number): { text: (node: string, streams: string) => string; valid: boolean } {
  switch (n % 6) {
    case 0:
      return { text: (a, b) => pipeline(a, b, { level: "error" }), valid: true };
    case 1:
      return { text: (a, b) => pipeline(a, b, { extraStep: ", no-such-step" }), valid: false };
    case 2:
      return { text: (a, b) => pipeline(a, b, { extraRoute }), valid: true };
    case 3:
      return { text: (a, b) => pipeline(a, b), valid: true };
    case 4:
      return { text: (a, b) => `${pipeline(a, b)}\n  : broken: [`, valid: false };
    default:
      return {
        text: (a, b) =>
          pipeline(a, b, { extraStep: ", { authorize: { require: key } }", extraRoute }),
        valid: true,
      };
  }
}

async function streamServer(): Promise<
  { url: string; open: Set<ServerResponse> } & AsyncDisposable
> {
  const open = new Set<ServerResponse>();
  const server = createServer((_req, res) => {
    res.writeHead(200, { "content-type": "text/plain" });
    res.write("first;");
    open.add(res);
  });
  const url = await listening(server);
  return { url, open, [Symbol.asyncDispose]: () => closed(server) };
}

function openStream(
  gateway: TestGateway,
): Promise<{ text: () => string; ended: Promise<unknown> }> {
  const { promise, resolve, reject } = Promise.withResolvers<{
    text: () => string;
    ended: Promise<unknown>;
  }>();
  const headers = { authorization: `Bearer ${gateway.key}` };
  get(`${gateway.url}/stream`, { headers, agent: false }, (res: IncomingMessage) => {
    assert.equal(res.statusCode, 200);
    let text = "";
    res.setEncoding("utf8");
    res.on("data", (chunk: string) => {
      text += chunk;
      resolve({ text: () => text, ended });
    });
    const ended = once(res, "end");
  }).on("error", reject);
  return promise;
}

test(
  "50 reloads, valid and invalid mixed, drop none of 200 streams and refuse none of a constant stream of calls",
  { timeout: 60_000 },
  async () => {
    await using node = await startRpcNode();
    await using streams = await streamServer();
    await using gateway = await startTestGateway({ pipeline: pipeline(node.url, streams.url) });
    const opened = await Promise.all(Array.from({ length: 200 }, () => openStream(gateway)));

    let stop = false;
    let answered = 0;
    const caller = async (): Promise<void> => {
      while (!stop) {
        const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
          method: "POST",
          headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
          body: '{"jsonrpc":"2.0","id":1,"method":"system_chain","params":[]}',
        });
        const text = await response.text();
        assert.equal(response.status, 200, text);
        assert.ok(text.includes('"result":"Test"'), text);
        answered++;
      }
    };
    const callers = Array.from({ length: 4 }, caller);

    let swapped = 1;
    for (let n = 0; n < 50; n++) {
      const { text, valid } = variation(n);
      const before = answered;
      await gateway.write(text(node.url, streams.url));
      const faults = await gateway.gateway.reloader.reload("test");
      assert.equal(faults.length === 0, valid, JSON.stringify(faults));
      if (valid) swapped++;
      assert.equal(gateway.gateway.reloader.state.generation, swapped);
      assert.equal(gateway.gateway.reloader.state.faults.length > 0, !valid);
      for (const res of streams.open) res.write(`${n};`);
      // Calls continue between any two reloads.
      while (answered === before) await new Promise((resolve) => setImmediate(resolve));
    }
    stop = true;
    await Promise.all(callers);
    for (const res of streams.open) res.end("last");
    await Promise.all(opened.map((stream) => stream.ended));
    const whole = `first;${Array.from({ length: 50 }, (_, n) => `${n};`).join("")}last`;
    for (const stream of opened) assert.equal(stream.text(), whole);
    assert.ok(answered >= 50);
  },
);

test("a reload keeps what has not changed, such as the level of the rate-limit buckets", async () => {
  await using node = await startRpcNode();
  await using streams = await streamServer();
  await using gateway = await startTestGateway({
    pipeline: pipeline(node.url, streams.url).replace("rps: 100000", "rps: 1"),
    account: { plan: "enterprise" },
  });
  const call = async (): Promise<number> => {
    const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: '{"jsonrpc":"2.0","id":1,"method":"system_chain","params":[]}',
    });
    await response.text();
    return response.status;
  };
  assert.deepEqual([await call(), await call(), await call()], [200, 200, 429]);
  await gateway.write(
    pipeline(node.url, streams.url, { extraRoute }).replace("rps: 100000", "rps: 1"),
  );
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await call(), 429);
});

test("a saved file is reloaded automatically, and the reason why a bad one is not loaded is shown at /pipelines and in a gauge", async () => {
  await using node = await startRpcNode();
  await using streams = await streamServer();
  await using gateway = await startTestGateway({
    pipeline: pipeline(node.url, streams.url),
    watch: true,
  });
  const pipelines = async (): Promise<{
    reload: { generation: number; faults: { code: string }[] };
  }> => (await (await fetch(`${gateway.adminUrl}/pipelines`)).json()) as never;
  const until = async (
    holds: (state: Awaited<ReturnType<typeof pipelines>>) => boolean,
  ): Promise<void> => {
    const deadline = AbortSignal.timeout(10_000);
    while (!holds(await pipelines())) deadline.throwIfAborted();
  };
  await gateway.write(pipeline(node.url, streams.url, { extraRoute }));
  await until(({ reload }) => reload.generation === 2);
  await gateway.write(pipeline(node.url, streams.url, { extraStep: ", no-such-step" }));
  await until(({ reload }) => reload.faults[0]?.code === "SLUICE_PLUGIN_UNKNOWN");
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.match(metrics, /^sluice_reload_failed 1$/m);
  assert.match(metrics, /^sluice_generation 2$/m);
});
