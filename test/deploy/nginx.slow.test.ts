/** The load balancer of compose.replicas.yaml in front of two gateways that are restarted one after the other. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test, type TestContext } from "node:test";
import { startGateway, type Gateway } from "../../src/gateway/gateway.ts";
import { keepingLog } from "../../src/testing/keeping-log.ts";
import { skipWithout } from "../skip-without.ts";
import { temporaryFolder } from "../store/folder.ts";
import { freePort } from "../store/server-process.ts";

const shipped = readFileSync(join(import.meta.dirname, "../../deploy/nginx.conf"), "utf8");
const hasNginx = spawnSync("nginx", ["-v"]).error === undefined;

/** Replaces the parts that only Docker has: the name server, and the name of the service. */
function localConfig(folder: string, port: number, gateways: readonly number[]): string {
  const replaced = [
    [/^events \{\}$/m, `daemon off; pid ${folder}/pid; error_log ${folder}/error.log;\nevents {}`],
    [
      /^http \{$/m,
      ["http {", "access_log off;"]
        .concat(
          ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
            (kind) => `${kind}_temp_path ${folder}/${kind};`,
          ),
        )
        .join("\n"),
    ],
    [/^ +resolver .*$/m, ""],
    [
      /^ +server gateway:8080 resolve max_fails=0;$/m,
      gateways.map((each) => `server 127.0.0.1:${each} max_fails=0;`).join("\n"),
    ],
    [/listen 8080;/, `listen 127.0.0.1:${port};`],
  ] as const;
  return replaced.reduce((text, [from, to]) => {
    assert.match(text, from);
    return text.replace(from, to);
  }, shipped);
}

interface Nginx {
  readonly port: number;
  errors(): string[];
}

async function startNginx(t: TestContext, gateways: readonly number[]): Promise<Nginx> {
  const folder = temporaryFolder(t);
  const port = await freePort();
  const file = join(folder, "nginx.conf");
  writeFileSync(file, localConfig(folder, port, gateways));
  mkdirSync(join(folder, "logs"));
  const nginx = spawn("nginx", ["-c", file, "-p", folder], { stdio: ["ignore", "ignore", "pipe"] });
  const closed = once(nginx, "close");
  t.after(async () => {
    nginx.kill("SIGTERM");
    await closed;
  });
  const url = `http://127.0.0.1:${port}/healthz`;
  while (
    !(await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await delay(20);
  const errors = () => readFileSync(join(folder, "error.log"), "utf8").split("\n");
  return { port, errors };
}

async function startBackend(t: TestContext): Promise<{ url: string; counts: Map<string, number> }> {
  const counts = new Map<string, number>();
  const server = createServer(({ method = "" }, response) => {
    counts.set(method, (counts.get(method) ?? 0) + 1);
    setTimeout(() => response.end("ok"), 5);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, counts };
}

async function send(agent: Agent, port: number, method: string): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const client = request({ agent, port, host: "127.0.0.1", path: "/x", method }, (response) => {
    response.resume().on("end", () => resolve(response.statusCode ?? 0));
  });
  client.on("error", reject).end(method === "POST" ? "body" : undefined);
  return promise;
}

/** The time in which a gateway that stops accepts connections is that of the shipped file. */
function pipeline(backend: string, port: number): string {
  return `version: 1
server: { port: ${port}, drainDelaySeconds: 1 }
admin: { port: 0 }
store: { data: ./data }
upstreams: { api: { urls: "${backend}" } }
routes: [{ path: /x, methods: [GET, POST], run: [], to: { forward: { upstream: api } } }]
`;
}

test(
  "a rolling restart fails no request that can be repeated, and repeats no POST",
  { skip: skipWithout("nginx", hasNginx) },
  async (t) => {
    const { url, counts } = await startBackend(t);
    const start = async (port: number): Promise<Gateway> => {
      const folder = temporaryFolder(t);
      const configFile = join(folder, "pipeline.yaml");
      writeFileSync(configFile, pipeline(url, port));
      return startGateway({ configFile, env: {}, log: keepingLog([]), watch: false });
    };
    const ports = [await freePort(), await freePort()];
    const gateways = new Map(
      await Promise.all(ports.map(async (port) => [port, await start(port)] as const)),
    );
    t.after(() => Promise.all([...gateways.values()].map((each) => each.stop())));
    const nginx = await startNginx(t, ports);
    const agent = new Agent({ keepAlive: true });
    t.after(() => agent.destroy());
    let isOver = false;
    const sent = new Map<string, number>();
    const failed = new Map<string, number>();
    const clients = ["GET", "POST", "POST", "POST"].map(async (method) => {
      while (!isOver) {
        sent.set(method, (sent.get(method) ?? 0) + 1);
        const status = await send(agent, nginx.port, method);
        if (status !== 200) failed.set(method, (failed.get(method) ?? 0) + 1);
      }
    });
    const reached = async (more: number): Promise<void> => {
      const until = (sent.get("POST") ?? 0) + more;
      while ((sent.get("POST") ?? 0) < until) await delay(5);
    };
    for (const each of ports) {
      await reached(50);
      await gateways.get(each)?.stop();
      await reached(50);
      gateways.set(each, await start(each));
    }
    await reached(50);
    isOver = true;
    await Promise.all(clients);
    assert.equal(failed.get("GET"), undefined);
    // A connection that the system has accepted is reset if its port closes before the gateway has taken it. nginx cannot
    // know that the gateway has not seen the POST. All other requests reach the other gateway.
    const reset = /(?:reading response header from|sending request to) upstream.*"POST/;
    const resets = nginx.errors().filter((line) => reset.test(line)).length;
    assert.equal(failed.get("POST") ?? 0, resets);
    assert.ok(resets <= 4, `${resets} resets`);
    assert.equal(counts.get("POST"), (sent.get("POST") ?? 0) - resets);
  },
);
