/**
 * Measures the time from exec to the first answer, the memory of the idle process, and the size of the package, beside
 * peers in the same run. The times are only comparable on a machine that does nothing else.
 *
 *   npm run bench -- --start
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { productionPackages } from "../../test/package/package-fixture.ts";
import { builtSluice } from "../load/start-sluice.ts";
import { freePort, memoryMiB } from "../load/process.ts";
import { median } from "../load/table.ts";
import { startPeers, type StartPeer } from "./peers.ts";

const rounds = 5;
/** V8 waits for 30 s before it shrinks the heap of an idle process. */
const idleMs = 45_000;
const pollMs = 2;
const root = join(import.meta.dirname, "../..");

interface Start {
  readonly ms: number;
  readonly rssMiB: number | undefined;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** `fetch` is not used, because its first call takes long. */
function answers(port: number, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    let text = "";
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n`);
    });
    socket.on("data", (bytes) => (text += bytes.toString("latin1")));
    socket.on("error", () => resolve(false));
    socket.on("close", () => resolve(text.startsWith("HTTP/1.1 200")));
  });
}

/** Reads the memory after `idle` milliseconds without requests, and then ends the peer. */
async function start(
  { command, env, path }: StartPeer,
  port: number,
  idle: number,
): Promise<Start> {
  const [program = "", ...args] = command;
  const started = performance.now();
  const child = spawn(program, args, { stdio: "ignore", env: { ...process.env, ...env } });
  const ended = once(child, "exit");
  if (path === undefined) {
    await ended;
    return { ms: performance.now() - started, rssMiB: undefined };
  }
  while (!(await answers(port, path))) {
    if (child.exitCode !== null) throw new Error(`${command.join(" ")} ended while it started`);
    await pause(pollMs);
  }
  const ms = performance.now() - started;
  await pause(idle);
  const rssMiB = idle === 0 || child.pid === undefined ? undefined : memoryMiB(child.pid);
  child.kill("SIGTERM");
  await ended;
  return { ms, rssMiB };
}

function sizeMiB(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  const bytes = files
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
  return bytes / 1024 / 1024;
}

export async function measureStarts(): Promise<void> {
  const main = builtSluice()[1] ?? "";
  console.log("|                          | to the first answer, ms | idle RSS, MiB |");
  console.log("| ------------------------ | ----------------------- | ------------- |");
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "sluice-start-"));
  try {
    for (const peer of startPeers(folder, port, main)) {
      const starts: Start[] = [];
      for (let round = 1; round < rounds; round++) starts.push(await start(peer, port, 0));
      const last = await start(peer, port, idleMs);
      starts.push(last);
      const ms = median(starts.map((each) => each.ms)).toFixed(0);
      const memory = last.rssMiB?.toFixed(0) ?? "";
      console.log(`| ${peer.name.padEnd(24)} | ${ms.padEnd(23)} | ${memory.padEnd(13)} |`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  // Packages in the folder of another package are counted with that package.
  const packages = productionPackages().filter(
    (path) => !/node_modules\/.*node_modules\//.test(path),
  );
  const others = packages.reduce((sum, path) => sum + sizeMiB(join(root, path)), 0);
  const own = sizeMiB(dirname(dirname(main)));
  console.log(
    `\npackage ${own.toFixed(1)} MiB, the packages that it needs ${others.toFixed(1)} MiB`,
  );
}
