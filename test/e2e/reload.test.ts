/** A reload of a running gateway keeps connections, calls, buckets, upstreams, runtimes and networks. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { startWorker } from "../plugins/inference/networks/scripted-worker.ts";
import { demoChain, eventsKey } from "../plugins/ledger/ledger/decode/chains.ts";
import { referenceDecoder } from "../plugins/ledger/ledger/decode/polkadot-reference.ts";
import { ask } from "./ask.ts";
import { closed, listening, startRpcNode, type RpcNode } from "./rpc-node.ts";

const listeners = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
unmatched: [request-id]
`;

const chainOf = ({ url, key }: TestGateway) =>
  ask(`${url}/v1/ledger/rpc`, { key, body: { jsonrpc: "2.0", id: 1, method: "system_chain" } });

async function reload(gateway: TestGateway, text: string): Promise<void> {
  await gateway.write(text);
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
}

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
  return `${listeners}
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams:
  ledger: { urls: "${node}" }
  streams: { urls: "${streams}", connections: 400 }
lists:
  edge: [request-id, { access-log: { level: ${level ?? "silent"} } }, authenticate, rate-limit${extraStep ?? ""}]
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
        const { status, text } = await chainOf(gateway);
        assert.equal(status, 200, text);
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
  const call = async (): Promise<number> => (await chainOf(gateway)).status;
  assert.deepEqual([await call(), await call(), await call()], [200, 200, 429]);
  await reload(
    gateway,
    pipeline(node.url, streams.url, { extraRoute }).replace("rps: 100000", "rps: 1"),
  );
  assert.equal(await call(), 429);
});

test("a saved file is reloaded automatically, and the reason why a bad one is not loaded is shown at /pipelines and in a gauge", async () => {
  await using node = await startRpcNode();
  await using streams = await streamServer();
  await using gateway = await startTestGateway({
    pipeline: pipeline(node.url, streams.url),
    watch: true,
  });
  interface State {
    readonly generation: number;
    readonly faults: readonly { readonly code: string }[];
  }
  const until = async (holds: (state: State) => boolean): Promise<void> => {
    const deadline = AbortSignal.timeout(10_000);
    while (!holds((await ask(`${gateway.adminUrl}/pipelines`)).json.reload)) {
      deadline.throwIfAborted();
    }
  };
  await gateway.write(pipeline(node.url, streams.url, { extraRoute }));
  await until(({ generation }) => generation === 2);
  await gateway.write(pipeline(node.url, streams.url, { extraStep: ", no-such-step" }));
  await until(({ faults }) => faults[0]?.code === "SLUICE_PLUGIN_UNKNOWN");
  const { text: metrics } = await ask(`${gateway.adminUrl}/metrics`);
  assert.match(metrics, /^sluice_reload_failed 1$/m);
  assert.match(metrics, /^sluice_generation 2$/m);
});

const onUpstream = (node: string): string => `${listeners}
upstreams: { ledger: { urls: "${node}" }, plain: { urls: "${node}" } }
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - { path: /plain, methods: [POST], to: { forward: { upstream: plain } } }
`;

test("while a reload moves an upstream to other nodes, the gateway stays ready and no call fails", async () => {
  await using first = await startRpcNode({ system_chain: () => "first" });
  await using second = await startRpcNode({ system_chain: () => "second" });
  await using gateway = await startTestGateway({ pipeline: onUpstream(first.url) });
  const readiness = async (): Promise<number> => (await ask(`${gateway.url}/readyz`)).status;
  assert.equal(await readiness(), 200, "from the first moment on");
  let stop = false;
  const statuses = new Set<number>();
  const names = new Set<unknown>();
  const check = async (): Promise<void> => {
    while (!stop) statuses.add(await readiness());
  };
  const call = async (): Promise<void> => {
    while (!stop) names.add((await chainOf(gateway)).json.result);
  };
  const load = [check(), check(), call(), call()];
  for (let n = 0; n < 20; n++) {
    await reload(gateway, onUpstream(n % 2 === 0 ? second.url : first.url));
    statuses.add(await readiness());
  }
  stop = true;
  await Promise.all(load);
  assert.deepEqual(statuses, new Set([200]));
  assert.deepEqual(names, new Set(["first", "second"]));
});

const chain = demoChain();

function startChainNode(): Promise<RpcNode> {
  const blockAt = (hash: unknown): (typeof chain.blocks)[number] | undefined =>
    chain.blocks.find((block) => block.hash === hash);
  return startRpcNode({
    chain_getBlock: ([hash]) => blockAt(hash)?.result ?? null,
    chain_getHeader: ([hash]) =>
      typeof hash === "string" ? (blockAt(hash)?.result.block.header ?? null) : { number: "0x64" },
    state_getRuntimeVersion: () => chain.runtimeVersion,
    state_getMetadata: () => chain.metadata,
    state_getStorage: ([key, hash]) => (key === eventsKey ? (blockAt(hash)?.events ?? null) : null),
  });
}

const decoding = (node: string, write: boolean): string => `${listeners}
upstreams: { ledger: { urls: "${node}" } }
tools: [{ ledger-tools: { upstream: ledger, write: ${write} } }]
routes:
  - { path: /rpc, methods: [POST], run: [request-id, authenticate, meter], to: tool-rpc }
`;

test("a reload keeps the runtimes that were read, until the upstream changes", async () => {
  await using first = await startChainNode();
  await using second = await startChainNode();
  await using gateway = await startTestGateway({ pipeline: decoding(first.url, false) });
  const reference = referenceDecoder(chain.metadata);
  const decode = async (number: number): Promise<void> => {
    const block = chain.blocks[number];
    const params = { tool: "ledger_getBlockDecoded", params: { hash: block?.hash } };
    const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params };
    const { text } = await ask(`${gateway.url}/rpc`, { key: gateway.key, body });
    const extrinsics = block?.result.block.extrinsics.map((raw, i) => reference.extrinsic(raw, i));
    assert(text.includes(`"decodedExtrinsics":${JSON.stringify(extrinsics)}`), text.slice(0, 300));
    assert(text.includes(`"events":${JSON.stringify(reference.events(block?.events ?? "0x00"))}`));
  };
  const fetched = (node: RpcNode): number =>
    node.calls.filter(({ method }) => method === "state_getMetadata").length;

  await decode(3);
  await reload(gateway, decoding(first.url, true));
  await decode(4);
  assert.equal(fetched(first), 1);
  await reload(gateway, decoding(second.url, true));
  await decode(5);
  assert.deepEqual([fetched(first), fetched(second)], [1, 1]);
});

test("a reload keeps a network that did not change, and opens those that did", async () => {
  await using kept = await startWorker({ models: ["kept"] });
  await using old = await startWorker({ models: ["old"] });
  await using young = await startWorker({ models: ["young"] });
  const onNetworks = (b: string, path: string): string => `${listeners}
networks:
  a: { kind: openai, url: "${kept.url}", status: { every: 12h } }
  b: { kind: openai, url: "${b}", status: { every: 12h } }
routes:
  - { path: ${path}, methods: [GET], run: [request-id, authenticate], to: models }
`;
  await using gateway = await startTestGateway({ pipeline: onNetworks(old.url, "/v1/models") });
  const listed = async (path: string): Promise<string[]> => {
    const { json } = await ask(gateway.url + path, { key: gateway.key });
    return json.data.map(({ id }: { id: string }) => id);
  };
  assert.deepEqual(await listed("/v1/models"), ["kept", "old"]);
  // If it were opened again, it would request this list again.
  kept.documents.set("/v1/models", 503);
  await reload(gateway, onNetworks(young.url, "/models"));
  assert.deepEqual(await listed("/models"), ["kept", "young"]);
  assert.deepEqual([kept.reads.length, old.reads.length, young.reads.length], [1, 1, 1]);
});
