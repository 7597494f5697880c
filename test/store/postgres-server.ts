import { execFileSync, type ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { serverFolder, unprivileged, type PostgresPrograms } from "./programs.ts";
import { endServer, freePort, startServer } from "./server-process.ts";

export interface PostgresServer extends AsyncDisposable {
  readonly port: number;
  /** URL of the database `postgres`, with the owner of everything. */
  readonly url: string;
  /** Kills the server (SIGKILL), as a crash of the machine would end it. */
  kill(): Promise<void>;
  /** Starts it again on the same port and folder. It recovers from its log first. */
  restart(): Promise<void>;
}

/** A standby continues with "read-only connections". */
const readyText = "database system is ready to accept ";

export interface PostgresServerOptions {
  /** True if commits must reach the disk, which tests that kill the server need. */
  readonly durable?: boolean;
  readonly settings?: Readonly<Record<string, string>>;
  /** Fills the folder of the server. By default, an empty database is created. */
  readonly fill?: (data: string) => Promise<void>;
}

export async function startPostgres(
  { initdb, postgres }: PostgresPrograms,
  { durable = false, settings: more = {}, fill }: PostgresServerOptions = {},
): Promise<PostgresServer> {
  const folder = serverFolder("postgres");
  const remove = (): void => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.once("exit", remove);
  const data = join(folder, "data");
  const setUp = ["-D", data, "-U", "sluice", "-A", "trust", "-E", "UTF8", "--locale=C"];
  if (fill !== undefined) await fill(data);
  else execFileSync(initdb, [...setUp, "--no-sync"], { ...unprivileged, stdio: "ignore" });
  const port = await freePort();
  const settings = {
    port: String(port),
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    shared_buffers: "16MB",
    fsync: durable ? "on" : "off",
    full_page_writes: durable ? "on" : "off",
    ...more,
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const start = (): Promise<ChildProcess> =>
    startServer(postgres, ["-D", data, ...options], readyText);
  let child = await start();
  return {
    port,
    url: `postgres://sluice@127.0.0.1:${port}/postgres`,
    kill: () => endServer(child, "SIGKILL"),
    async restart() {
      // Backends of the killed server hold its shared memory until they notice that it has ended.
      for (let attempts = 1; ; attempts++) {
        try {
          child = await start();
          return;
        } catch (error) {
          if (attempts === 100) throw error;
          await wait(50);
        }
      }
    },
    async [Symbol.asyncDispose]() {
      // SIGQUIT ends the backends too, without writing anything.
      await endServer(child, "SIGQUIT");
      process.off("exit", remove);
      remove();
    },
  };
}
