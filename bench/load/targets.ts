import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Api } from "./chat-client.ts";
import { acceptMcp, sessionHeaders, statelessHeaders } from "./mcp-calls.ts";
import { chatPipeline, mcpPipeline, nodePipeline, type Variant } from "./pipelines.ts";
import { startPeer, type Peer } from "./process.ts";
import { luaName, portkey, proxiedPaths, proxies, type Target } from "./proxies.ts";
import { startSluice } from "./start-sluice.ts";

export interface Workload {
  readonly title: string;
  readonly backend: string;
  /** Without a path, the load consists of streams. */
  readonly path?: string;
  /** Requests per second at which the latency is measured. */
  readonly rate: number;
  /** The row to which the latency of the others is compared. */
  readonly direct?: string;
  /** The row with whose CPU time the others are compared. */
  readonly yardstick: string;
  readonly targets: readonly Target[];
}

const here = import.meta.dirname;

/** Cores of a gateway: one per thread by default. With two cores, it shares the second one with the load. */
function coresOf({ threads = 1, cores = threads }: Variant): string {
  return `0-${Math.min(cores, availableParallelism()) - 1}`;
}

const httpUrl = ({ port }: Peer): string => `http://127.0.0.1:${port}`;

/** The backend without a proxy. The latency of the others is added to this one. */
const direct: Target = {
  name: "no proxy",
  // The process continues when this target ends.
  start: (backend) =>
    Promise.resolve({
      peer: { ...backend, [Symbol.asyncDispose]: () => Promise.resolve() },
      headers: [],
    }),
};

function variants(of: (name: string, variant: Variant) => Target): Target[] {
  return [
    of("sluice, everything off", { without: "all" }),
    of("sluice, charges off", { without: "charges" }),
    of("sluice", {}),
    of("sluice, 2 threads", { threads: 2 }),
    of("sluice, 4 threads", { threads: 4 }),
  ];
}

const nodeTarget =
  (upstream: object) =>
  (name: string, variant: Variant): Target => ({
    name,
    start: (backend, folder) =>
      startSluice(
        nodePipeline({ ...variant, upstream }, folder, httpUrl(backend)),
        folder,
        coresOf(variant),
      ),
  });

function mcpTarget(name: string, variant: Variant): Target {
  return {
    name,
    revision: "2026-07-28",
    async start(_, folder) {
      const started = await startSluice(mcpPipeline(variant, folder), folder, coresOf(variant));
      return { ...started, headers: [...started.headers, ...statelessHeaders] };
    },
  };
}

function mcpPeer(name: string, file: string, ...args: string[]): Target {
  return {
    name,
    async start() {
      const command = [process.execPath, join(here, "peers", file), ...args];
      const peer = await startPeer(command, { core: 0 });
      const headers = args[0] === "session" ? await sessionHeaders(peer.port, []) : [acceptMcp];
      return { peer, headers };
    },
  };
}

const mcpSession: Target = {
  name: "sluice, in a session",
  async start(_, folder) {
    const { peer, headers } = await startSluice(mcpPipeline({}, folder), folder, 0);
    return { peer, headers: [...headers, ...(await sessionHeaders(peer.port, headers))] };
  },
};

/** `isNative`: the worker is asked in the same API, and not for chat completions. */
const chatTarget =
  (api: Api, isNative = false) =>
  (name: string, variant: Variant): Target => ({
    name,
    api,
    isExtra: api !== "chat",
    start: (model, folder) => {
      const network = { passes: ["tools"], ...(isNative && { speaks: [api] }) };
      const text = chatPipeline(variant, folder, httpUrl(model), api, network);
      return startSluice(text, folder, coresOf(variant));
    },
  });

export const workloads: Readonly<Record<string, Workload>> = {
  node: {
    title: "The node proxy",
    backend: "mock-node.ts",
    path: proxiedPaths.node.served,
    rate: 3_000,
    direct: direct.name,
    yardstick: luaName,
    targets: [
      direct,
      ...proxies(proxiedPaths.node),
      nodeTarget({ cacheBytes: 0, singleFlight: false })("sluice, cache off", {}),
      ...variants(nodeTarget({})),
      nodeTarget({})("sluice, 1 thread on 2 cores", { cores: 2 }),
    ],
  },
  mcp: {
    title: "Model Context Protocol",
    backend: "mock-node.ts",
    path: "/mcp",
    rate: 1_000,
    yardstick: "bare fastify route",
    targets: [
      mcpPeer("bare fastify route", "mcp-fastify.ts"),
      ...variants(mcpTarget),
      mcpSession,
      mcpPeer("official SDK, one server per session", "mcp-sdk.ts", "session"),
      mcpPeer("official SDK, one server per request", "mcp-sdk.ts", "request"),
    ],
  },
  chat: {
    title: "Chat completions",
    backend: "mock-model.ts",
    rate: 0,
    direct: direct.name,
    yardstick: luaName,
    targets: [
      direct,
      ...proxies(proxiedPaths.chat),
      ...variants(chatTarget("chat")),
      portkey("@portkey-ai/gateway", "chat"),
      portkey("@portkey-ai/gateway, Responses API", "responses"),
      portkey("@portkey-ai/gateway, Messages API", "messages"),
      chatTarget("responses")("sluice, Responses API", {}),
      chatTarget("responses", true)("sluice, Responses API of the worker", {}),
      chatTarget("messages")("sluice, Messages API", {}),
      chatTarget("messages", true)("sluice, Messages API of the worker", {}),
    ],
  },
};
