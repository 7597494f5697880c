/** Starts a peer as a process of its own, pinned to a core, and reads what it cost from the kernel's accounting. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { createInterface } from "node:readline";

export interface Peer extends AsyncDisposable {
  readonly port: number;
  /** First line that it printed. */
  readonly line: string;
  /** User and system CPU of the process, its threads and its children so far, microseconds. */
  cpuMicros(): number;
  /** Resident memory of process and children, MiB. */
  rssMiB(): number;
}

/** Clock ticks of /proc/<pid>/stat: 100 a second on every Linux that Node supports. */
const microsPerTick = 10_000;

/** `core`: the CPU it may use, where `taskset` exists. The first line it prints must hold its port. */
export async function startPeer(
  command: readonly string[],
  options: {
    readonly core: number;
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
    cpuMicros: () => sum(family(pid), cpuOf),
    rssMiB: () => memoryMiB(pid),
    async [Symbol.asyncDispose]() {
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

/** The first line that says where the peer listens: a port, or a document with a url. Log lines may come before it. */
async function addressLine(child: ChildProcess): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // Read to the end: a peer must never wait for somebody to take its log.
  createInterface({ input: child.stdout! }).on("line", (line) => {
    if (/^\d+$/.test(line) || line.startsWith('{"url"')) resolve(line);
  });
  child.once("exit", () => reject(new Error("the peer ended before it printed its port")));
  return promise;
}

function sum(pids: readonly number[], of: (pid: number) => number): number {
  return pids.reduce((total, pid) => total + of(pid), 0);
}

/** Resident memory of a process and its children, MiB. */
export function memoryMiB(pid: number): number {
  return sum(family(pid), rssOf);
}

/** The process and its children: nginx works in those. */
function family(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean),
  );
  return [pid, ...children.map(Number)];
}

function cpuOf(pid: number): number {
  // The command's name may hold spaces; the fields after its closing bracket do not.
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * microsPerTick;
}

function rssOf(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  return Number(kib ?? 0) / 1024;
}
