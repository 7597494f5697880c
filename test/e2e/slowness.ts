/** How slow this machine is, for limits on the CPU time of a turn of the event loop. */
import { execFileSync } from "node:child_process";

/** CPU time of `work` in milliseconds on the machine for which the limits were chosen, when it was quiet. */
const referenceMs = 60;
const text = "ab".repeat(4 << 20);

/** Writes 32 MiB to memory that is new to the process, as the longest turns do. */
function work(): void {
  for (let count = 0; count < 4; count++) JSON.stringify(text);
}

/** The slowest of so many runs counts: another program may have slowed the machine only for a part of the time. */
const runs = 10;

/**
 * Returns the limit for a turn that took `turnMs` of CPU time: `limitMs` if the turn is below it, and more if the turn is
 * above it and the machine is slow or busy. This process may already have memory for the work, so a new one does it.
 */
export function limitOnThisMachine(turnMs: number, limitMs: number): number {
  if (turnMs < limitMs) return limitMs;
  return limitMs * Number(execFileSync(process.execPath, [import.meta.filename]));
}

/** Returns 1 on a fast machine, and how many times slower it is on another one. It takes about a second. */
function slowness(): number {
  let slowest = 1;
  for (let run = 0; run < runs; run++) {
    const before = process.threadCpuUsage();
    work();
    const { user, system } = process.threadCpuUsage(before);
    slowest = Math.max(slowest, (user + system) / 1000 / referenceMs);
  }
  return slowest;
}

if (import.meta.main) console.log(slowness());
