import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export interface StartPeer {
  readonly name: string;
  readonly command: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Path that is answered with 200. Without it, the process ends by itself. */
  readonly path?: string;
}

const root = join(import.meta.dirname, "../..");

export function startPeers(folder: string, port: number, main: string): StartPeer[] {
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const node = process.execPath;
  const fastify = JSON.stringify(import.meta.resolve("fastify"));
  const nginx = `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log /dev/null; events {}
http { access_log off; server { listen 127.0.0.1:${port}; return 200 "ok"; } }`;
  const haproxy = `defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend all
  bind 127.0.0.1:${port}
  http-request return status 200
`;
  const caddy = `{\n admin off\n}\nhttp://127.0.0.1:${port} {\n respond "ok"\n}\n`;
  const env = {
    PORT: String(port),
    ADMIN_PORT: "0",
    DATA_DIR: join(folder, "data"),
    GATEWAY_SECRET: "a secret of at least thirty-two characters",
  };
  const sluice = [main, "start", "--config", join(root, "pipeline.yaml")];
  const flags = ["--max-semi-space-size=8", "--min-semi-space-size=8"];
  const all: StartPeer[] = [
    { name: "bare Node, `node -e 0`", command: [node, "-e", "0"] },
    {
      name: "bare node:http",
      command: [
        node,
        file(
          "http.mjs",
          `import http from "node:http";
http.createServer((_, answer) => answer.end("ok")).listen(${port}, "127.0.0.1");`,
        ),
      ],
      path: "/",
    },
    {
      name: "bare Fastify",
      command: [
        node,
        file(
          "fastify.mjs",
          `import { fastify } from ${fastify};
const app = fastify();
app.get("/", () => "ok");
await app.listen({ port: ${port}, host: "127.0.0.1" });`,
        ),
      ],
      path: "/",
    },
    { name: "sluice, the shipped file", command: [node, ...sluice], env, path: "/healthz" },
    // As the image and the systemd unit start it, with the settings of src/commands/server-process.ts.
    {
      name: "sluice, started once",
      command: [node, ...flags, ...sluice],
      env: { ...env, MALLOC_MMAP_THRESHOLD_: "32768" },
      path: "/healthz",
    },
    { name: "nginx", command: ["nginx", "-c", file("nginx.conf", nginx)], path: "/" },
    { name: "haproxy", command: ["haproxy", "-db", "-f", file("haproxy.cfg", haproxy)], path: "/" },
    {
      name: "caddy",
      command: ["caddy", "run", "--adapter", "caddyfile", "--config", file("Caddyfile", caddy)],
      path: "/",
    },
  ];
  return all.filter(({ command: [program = ""] }) => {
    return spawnSync(program, ["--version"]).error === undefined;
  });
}
