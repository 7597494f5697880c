/** Starts a peer as a process of its own on a core, and reads its costs from the kernel's accounting. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { createInterface } from "node:readline";

export interface Peer extends AsyncDisposable {
  readonly port: number;
  readonly line: string;
  /** User and system time of the process, its threads and its children so far. */
  cpuMicros(): number;
  rssMiB(): number;
}

/** Clock ticks of /proc/<pid>/stat: 100 per second on every Linux that Node supports. */
export const microsPerTick = 10_000;

/** `core`: the CPU that the process may use, or a list as `taskset` reads it. Its first line must contain its port. */
export async function startPeer(
  command: readonly string[],
  options: {
    readonly core: number | string;
    readonly env?: Readonly<Record<string, string>>;
    readonly port?: number;
  },
): Promise<Peer> {
  const child = spawn("taskset", ["-c", String(options.core), ...command], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...options.env },
  });
  const line = options.port === undefined ? await addressLine(child) : "";
  const port = options.port ?? portIn(line);
  if (child.pid === undefined) throw new Error(`${command[0]} did not start`);
  const { pid } = child;
  return {
    port,
    line,
    cpuMicros: () => sum(family(pid), cpuMicrosOf),
    rssMiB: () => memoryMiB(pid),
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null) return;
      const closed = once(child, "close");
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await closed;
      clearTimeout(timer);
    },
  };
}

function portIn(line: string): number {
  if (line.startsWith("{")) {
    const { url } = JSON.parse(line) as { url: string };
    return Number(new URL(url).port);
  }
  return Number(line);
}

/** The line has the port, or a document with the URL. Log lines may come before it. */
async function addressLine(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // The output is read to the end, so that a peer never waits until its log is read.
  createInterface({ input: child.stdout! }).on("line", (line) => {
    if (/^\d+$/.test(line) || line.startsWith('{"url"')) resolve(line);
  });
  child.once("exit", () => reject(new Error("the peer ended before it printed its port")));
  return promise;
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid), 0);
}

export function memoryMiB(pid: number): number {
  return sum(family(pid), rssMiBOf);
}

/** Returns the process and its children, because nginx works in these. */
function family(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean),
  );
  return [pid, ...children.map(Number)];
}

/** Returns the fields of /proc/<pid>/stat after the name of the command, which may contain spaces. */
export function statOf(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** User and system time of the process so far. */
export function cpuMicrosOf(pid: number): number {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) * microsPerTick;
}

export function rssMiBOf(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  return Number(kib ?? 0) / 1024;
}

/** Returns a port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== "object" || address === null) throw new Error("no port");
  return address.port;
}

/** Resolves when a server on the port answers HTTP with any status. Rejects after about 4 s. */
export async function listening(port: number): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const up = await fetch(`http://127.0.0.1:${port}`).then(
      () => true,
      () => false,
    );
    if (up) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`nothing listens on port ${port}`);
}
