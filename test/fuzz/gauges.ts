import { readMetrics } from "../../bench/soak/sample.ts";

/** The gateway may learn a little later than its client that a connection has closed. */
const settleMs = 5_000;

/** Rejects after five seconds with the gauges of open sessions, exchanges or reservations that are above 0. */
export async function gaugesAreZero(adminUrl: string): Promise<void> {
  const deadline = performance.now() + settleMs;
  for (;;) {
    const { open } = await readMetrics(adminUrl);
    if (open.length === 0) return;
    if (performance.now() > deadline) throw new Error(`still open: ${open.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
