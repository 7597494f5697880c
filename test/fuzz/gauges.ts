/** What a gateway still holds when nobody uses it any more, read from /metrics. */

/** Families that count what is open now: sessions, exchanges, reservations, unfinished bodies. */
const heldFamilies = /^sluice_\w*(sessions|in_flight|open|running|unfinished|reserved|held)\w*$/;
/** The gateway may learn a little later than its client that a connection has closed. */
const settleMs = 5_000;

/** The lines of /metrics that count something open; empty when all of them are 0. */
export async function heldGauges(adminUrl: string): Promise<readonly string[]> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return text.split("\n").filter((line) => {
    const [, name = "", value] = /^(\w+)(?:\{.*\})? (\S+)$/.exec(line) ?? [];
    return heldFamilies.test(name) && !name.endsWith("_total") && Number(value) !== 0;
  });
}

/** Resolves when all such gauges are 0. Throws with the others when that does not happen within five seconds. */
export async function gaugesAreZero(adminUrl: string): Promise<void> {
  const deadline = performance.now() + settleMs;
  for (;;) {
    const held = await heldGauges(adminUrl);
    if (held.length === 0) return;
    if (performance.now() > deadline) throw new Error(`still open: ${held.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
