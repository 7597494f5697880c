/**
 * Preloaded into a gateway. Writes the longest CPU time in milliseconds that its main thread took between two turns of
 * timers to the file `LOOP_PROBE_FILE`. A busy machine delays answers, but does not add to this time. SIGUSR2 begins a
 * new measurement.
 */
import { writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const file = process.env["LOOP_PROBE_FILE"];
if (isMainThread && file !== undefined) {
  let last = process.threadCpuUsage();
  let longest = Infinity;
  process.on("SIGUSR2", () => {
    last = process.threadCpuUsage();
    longest = 0;
  });
  const look = (): void => {
    const { user, system } = process.threadCpuUsage(last);
    const micros = user + system;
    if (micros > longest) {
      longest = micros;
      writeFileSync(file, String(micros / 1000));
    }
    last = process.threadCpuUsage();
  };
  setInterval(look, 5).unref();
}
