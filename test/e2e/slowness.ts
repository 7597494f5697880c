/** How slow this machine is, for limits on the CPU time of a turn of the event loop. */

/** CPU time of `work` in milliseconds on the machine for which the limits were chosen, when it was quiet. */
const referenceMs = 60;
const text = "ab".repeat(4 << 20);

/** Writes 32 MiB to memory that is new to the process, as the longest turns do. */
function work(): void {
  for (let count = 0; count < 4; count++) JSON.stringify(text);
}

let slowest = 1;

/**
 * Returns 1 on a fast machine. On a slow or busy one, returns how many times slower it was at the slowest call so far:
 * other programs may have slowed the machine during the longest turn, and not any more.
 */
export function slowness(): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  slowest = Math.max(slowest, (user + system) / 1000 / referenceMs);
  return slowest;
}
