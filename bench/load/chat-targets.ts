/** The targets of bench/load/chat.ts between the client and the model: no proxy, four proxies, and Sluice. */
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { apis, type Api } from "./chat-client.ts";
import { builtSluice } from "./built-package.ts";
import { issueKey } from "./key.ts";
import { chatPipeline } from "./pipelines.ts";
import { freePort, listening } from "./ports.ts";
import { startPeer, type Peer } from "./process.ts";

export interface ChatTarget {
  readonly name: string;
  /** The reason why the target cannot run here. Undefined if it can. */
  readonly missing?: string | undefined;
  /** Default: `chat`. */
  readonly api?: Api;
  /** `folder`: a folder for this run alone. The process ends when the peer is disposed of. */
  start(model: Peer, folder: string): Promise<{ peer: Peer; headers: readonly string[] }>;
}

/** The row with which the others are compared. */
export const yardstick = "bare fastify + @fastify/http-proxy";

const proxyCore = 0;
const here = import.meta.dirname;
const root = join(here, "../..");
const node = process.execPath;
/** Number of connections that a proxy may open. Each stream needs one. */
const connections = 2048;
const portkeyEntry = join(root, "node_modules/@portkey-ai/gateway/build/start-server.js");

const urlOf = ({ port }: Peer): string => `http://127.0.0.1:${port}`;

const direct: ChatTarget = {
  name: "the mock model itself",
  // The process continues when this target ends.
  start: (model) =>
    Promise.resolve({
      peer: { ...model, [Symbol.asyncDispose]: () => Promise.resolve() },
      headers: [],
    }),
};

const nginx: ChatTarget = {
  name: "nginx, proxy_buffering off",
  missing: spawnSync("nginx", ["-v"]).error === undefined ? undefined : "nginx is not installed",
  async start(model, folder) {
    const port = await freePort();
    const file = join(folder, "nginx.conf");
    writeFileSync(
      file,
      `daemon off; worker_processes 1; worker_rlimit_nofile 8192; pid ${folder}/nginx.pid; error_log ${folder}/nginx.err;
      events { worker_connections 8192; }
      http {
        access_log ${folder}/nginx.log; keepalive_requests 1000000;
        client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder};
        uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
        upstream model { server 127.0.0.1:${model.port}; keepalive ${connections}; keepalive_requests 1000000; }
        server { listen 127.0.0.1:${port} backlog=4096;
          location /v1/ {
            proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
          }
        }
      }`,
    );
    const peer = await startPeer(["nginx", "-c", file], { core: proxyCore, port });
    await listening(port);
    return { peer, headers: [] };
  },
};

function script(name: string, file: string, ...args: readonly string[]): ChatTarget {
  return {
    name,
    start: async (model) => ({
      peer: await startPeer([node, join(here, "peers", file), urlOf(model), ...args], {
        core: proxyCore,
      }),
      headers: [],
    }),
  };
}

/**
 * Headers name the address of the model. This proxy stores nothing and checks no key. It forwards the Responses API to a
 * worker with that API, and the Messages API to one of the provider `anthropic`. It translates neither into chat
 * completions (`messages is not supported by openai`, `createModelResponse is not supported by anthropic`).
 */
function portkey(name: string, api: Api): ChatTarget {
  return {
    name,
    api,
    missing: existsSync(portkeyEntry) ? undefined : "@portkey-ai/gateway is not installed",
    async start(model) {
      const port = await freePort();
      const command = [node, portkeyEntry, `--port=${port}`, "--headless"];
      const peer = await startPeer(command, { core: proxyCore, port });
      await listening(port);
      return {
        peer,
        headers: [
          `x-portkey-provider: ${api === "messages" ? "anthropic" : "openai"}`,
          `x-portkey-custom-host: ${urlOf(model)}/v1`,
          "authorization: Bearer bench",
        ],
      };
    },
  };
}

/**
 * All features are on: key, limits, metering with fsync, and an access log in a file. `isNative`: the worker is asked in
 * the same API, and not for chat completions.
 */
function sluice(name: string, api: Api, isNative = false): ChatTarget {
  return {
    name,
    api,
    async start(model, folder) {
      const file = join(folder, "pipeline.yaml");
      const network = { passes: ["tools"], ...(isNative && { speaks: [api] }) };
      writeFileSync(file, chatPipeline(urlOf(model), folder, api, network));
      const env = { PORT: "0", ADMIN_PORT: "0" };
      const key = issueKey(file, env);
      const command = [...builtSluice(), "start", "--json", "--config", file];
      const peer = await startPeer(command, { core: proxyCore, env });
      return { peer, headers: [`authorization: Bearer ${key}`] };
    },
  };
}

export const chatTargets: readonly ChatTarget[] = [
  direct,
  nginx,
  script("raw node:http + undici", "raw-proxy.ts", String(connections)),
  script(yardstick, "fastify-proxy.ts", apis.chat.path, String(connections)),
  portkey("@portkey-ai/gateway", "chat"),
  portkey("@portkey-ai/gateway, Responses API", "responses"),
  portkey("@portkey-ai/gateway, Messages API", "messages"),
  sluice("sluice", "chat"),
  sluice("sluice, Responses API", "responses"),
  sluice("sluice, Responses API of the worker", "responses", true),
  sluice("sluice, Messages API", "messages"),
  sluice("sluice, Messages API of the worker", "messages", true),
];
