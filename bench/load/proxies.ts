import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { apis, type Api } from "./chat-client.ts";
import type { Revision } from "./mcp-calls.ts";
import { freePort, listening, startPeer, type Peer } from "./process.ts";

export interface Started {
  readonly peer: Peer;
  readonly headers: readonly string[];
}

/** One row of the tables of `npm run bench`. */
export interface Target {
  readonly name: string;
  /** The reason why the target cannot run here. */
  readonly missing?: string | undefined;
  /** Default: 2025-11-25. */
  readonly revision?: Revision;
  /** Default: `chat`. */
  readonly api?: Api;
  /** Whether the target is only measured if it is named. */
  readonly isExtra?: boolean;
  /** `folder`: for this run alone. The process ends when the peer is disposed of. */
  start(backend: Peer, folder: string): Promise<Started>;
}

export const luaName = "nginx + Lua: key, counter";

const core = 0;
const here = import.meta.dirname;
const node = process.execPath;
/** Number of connections that a proxy may open. Each stream needs one. */
const connections = 1024;
const portkeyEntry = join(here, "../../node_modules/@portkey-ai/gateway/build/start-server.js");

interface Path {
  readonly served: string;
  readonly upstream: string;
  /** Whether nginx collects answers before it passes them on, which is its default. */
  readonly buffering: "on" | "off";
}

async function startProgram(
  command: readonly string[],
  port: number,
  headers: readonly string[] = [],
): Promise<Started> {
  const peer = await startPeer(command, { core, port });
  await listening(port);
  return { peer, headers };
}

function missing(program: string, file?: string): string | undefined {
  const isMissing =
    spawnSync(program, ["-v"]).error !== undefined || (file !== undefined && !existsSync(file));
  return isMissing ? `${file ?? program} is not installed` : undefined;
}

const luaModule = "/usr/lib/nginx/modules/ngx_http_lua_module.so";

/** `key`: with Lua, which looks the key up and counts its requests in shared memory. Nothing of it is durable. */
function nginx(name: string, path: Path, key?: string): Target {
  const lua = `lua_shared_dict keys 1m; lua_shared_dict counts 1m;
        init_by_lua_block { ngx.shared.keys:set("${key}", "workspace") }
        access_by_lua_block {
          local key = string.match(ngx.var.http_authorization or "", "^Bearer (.+)$")
          local owner = key and ngx.shared.keys:get(key)
          if not owner then return ngx.exit(401) end
          if ngx.shared.counts:incr(owner, 1, 0) > 1e12 then return ngx.exit(429) end
        }`;
  const modules = `load_module ${luaModule.replace("ngx_http_lua", "ndk_http")}; load_module ${luaModule};`;
  return {
    name,
    missing: missing("nginx", key === undefined ? undefined : luaModule),
    async start(backend, folder) {
      const port = await freePort();
      const file = join(folder, "nginx.conf");
      const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
      writeFileSync(
        file,
        `daemon off; worker_processes 1; worker_rlimit_nofile 8192; pid ${folder}/nginx.pid;
      error_log ${folder}/nginx.err; ${key === undefined ? "" : modules}
      events { worker_connections 8192; }
      http {
        access_log ${folder}/nginx.log; keepalive_requests 1000000;
        ${temporary.map((kind) => `${kind}_temp_path ${folder};`).join(" ")}
        ${key === undefined ? "" : lua}
        upstream backend { server 127.0.0.1:${backend.port}; keepalive ${connections}; keepalive_requests 1000000; }
        server { listen 127.0.0.1:${port} backlog=4096;
          location ${path.served} {
            proxy_pass http://backend${path.upstream}; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_buffering ${path.buffering};
          }
        }
      }`,
      );
      const headers = key === undefined ? [] : [`authorization: Bearer ${key}`];
      return startProgram(["nginx", "-c", file], port, headers);
    },
  };
}

function haproxy(path: Path): Target {
  return {
    name: "haproxy",
    missing: missing("haproxy"),
    async start(backend, folder) {
      const port = await freePort();
      const file = join(folder, "haproxy.cfg");
      writeFileSync(
        file,
        `global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout client 60s
  timeout server 60s
  timeout connect 5s
${path.buffering === "off" ? "  option http-no-delay" : ""}
frontend all
  bind 127.0.0.1:${port} backlog 4096
  http-request deny deny_status 404 unless { path ${path.served} }
  default_backend backend
backend backend
  http-request set-path ${path.upstream}
  http-reuse always
  server one 127.0.0.1:${backend.port}
`,
      );
      return startProgram(["haproxy", "-db", "-f", file], port);
    },
  };
}

function script(name: string, file: string, ...args: readonly string[]): Target {
  return {
    name,
    start: async ({ port }) => {
      const command = [node, join(here, "peers", file), `http://127.0.0.1:${port}`, ...args];
      return { peer: await startPeer(command, { core }), headers: [] };
    },
  };
}

export function proxies(path: Path): Target[] {
  return [
    nginx("nginx", path),
    nginx(luaName, path, "a-key-of-the-benchmark"),
    haproxy(path),
    script("raw node:http + undici", "raw-proxy.ts", String(connections)),
    script(
      "bare fastify + @fastify/http-proxy",
      "fastify-proxy.ts",
      path.served,
      path.upstream,
      String(connections),
    ),
  ];
}

/**
 * Headers name the address of the model. This proxy stores nothing and checks no key. It forwards the Responses API to a
 * worker with that API, and the Messages API to one of the provider `anthropic`. It translates neither into chat
 * completions (`messages is not supported by openai`, `createModelResponse is not supported by anthropic`).
 */
export function portkey(name: string, api: Api): Target {
  return {
    name,
    api,
    isExtra: api !== "chat",
    missing: existsSync(portkeyEntry) ? undefined : "@portkey-ai/gateway is not installed",
    async start(model: Peer) {
      const port = await freePort();
      return startProgram([node, portkeyEntry, `--port=${port}`, "--headless"], port, [
        `x-portkey-provider: ${api === "messages" ? "anthropic" : "openai"}`,
        `x-portkey-custom-host: http://127.0.0.1:${model.port}/v1`,
        "authorization: Bearer bench",
      ]);
    },
  };
}

export const proxiedPaths = {
  node: { served: "/v1/ledger/rpc", upstream: "/", buffering: "on" },
  chat: { served: apis.chat.path, upstream: apis.chat.path, buffering: "off" },
} as const;
