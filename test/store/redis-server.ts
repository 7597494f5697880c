/** Redis servers for tests, where the system has Redis. They keep nothing on disk. */
import type { ChildProcess } from "node:child_process";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { serverFolder, systemProgram } from "./programs.ts";
import { endServer, freePort, startServer } from "./server-process.ts";

export interface RedisServer {
  readonly port: number;
  readonly url: string;
  signal(signal: NodeJS.Signals): void;
  /** Kills the server, which loses its data. */
  kill(): Promise<void>;
  /** Starts the server again on the same port. */
  start(): Promise<void>;
}

/** Starts a Redis on a free port, until the test ends. Without Redis, skips the test and returns undefined. */
export async function startRedis(
  t: TestContext,
  args: readonly string[] = [],
): Promise<RedisServer | undefined> {
  const program = systemProgram(t, "redis-server");
  if (program === undefined) return undefined;
  const server = await openRedis(program, args);
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

export async function openRedis(
  program: string,
  args: readonly string[] = [],
): Promise<RedisServer & AsyncDisposable> {
  const folder = serverFolder("redis");
  const port = await freePort();
  const memoryOnly = ["--save", "", "--appendonly", "no", "--dir", folder];
  const place = ["--bind", "127.0.0.1", "--port", String(port)];
  let child: ChildProcess | undefined;
  const server: RedisServer & AsyncDisposable = {
    port,
    url: `redis://127.0.0.1:${port}`,
    signal: (signal) => void child?.kill(signal),
    async kill() {
      if (child !== undefined) await endServer(child, "SIGKILL");
    },
    async start() {
      child = await startServer(program, [...place, ...memoryOnly, ...args], "Ready to accept");
    },
    async [Symbol.asyncDispose]() {
      await server.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
  await server.start();
  return server;
}

/** Starts a Sentinel for the server, under the name `main`, until the test ends. Its URL is that of the master. */
export async function startSentinel(t: TestContext, master: RedisServer): Promise<string> {
  const program = systemProgram(t, "redis-server");
  if (program === undefined) throw new Error("redis-server was there a moment ago");
  const folder = serverFolder("sentinel");
  const port = await freePort();
  const file = join(folder, "sentinel.conf");
  const settings = [
    `port ${port}`,
    "bind 127.0.0.1",
    `dir ${folder}`,
    `sentinel monitor main 127.0.0.1 ${master.port} 1`,
    "sentinel down-after-milliseconds main 500",
    "sentinel failover-timeout main 2000",
  ];
  writeFileSync(file, `${settings.join("\n")}\n`);
  // The Sentinel writes what it learns into its file.
  chmodSync(file, 0o666);
  const child = await startServer(program, [file, "--sentinel"], "+monitor");
  t.after(async () => {
    await endServer(child, "SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });
  return `redis+sentinel://127.0.0.1:${port}/main`;
}
