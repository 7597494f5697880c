/** Watches how long `/healthz` takes during an attack. The promise is 200 ms on a machine that is not busy. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { TestContext } from "node:test";

/** Returns a function that stops asking for `/healthz` from another process, and returns the longest time in ms. */
export function watchHealth(
  t: Pick<TestContext, "after" | "diagnostic">,
  url: string,
): () => Promise<number> {
  const probe = fork(join(import.meta.dirname, "health-probe.ts"), [url]);
  t.after(() => probe.kill());
  return async () => {
    const message = once(probe, "message");
    probe.send("end");
    // The only message of the probe is a number.
    const longest = (await message)[0] as number;
    t.diagnostic(`longest health check: ${Math.round(longest)} ms`);
    return longest;
  };
}
