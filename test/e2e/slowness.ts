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
 * Returns 1 on a fast machine, and how many times slower than it a slow or busy one has been at the calls of this process.
 * The longest turn may be one of a time in which other programs made the machine slow.
 */
export function slowness(): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  slowest = Math.max(slowest, (user + system) / 1000 / referenceMs);
  return slowest;
}
