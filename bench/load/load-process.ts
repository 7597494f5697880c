/** Makes the load for driver.ts, in a process of its own: one load after the other, so that its code is compiled once. */
import { runStreams } from "./chat-client.ts";
import { load } from "./client.ts";
import type { Done, Load } from "./driver.ts";
import { toolCalls } from "./mcp-calls.ts";
import { requestBodies } from "./workload.ts";

const bodies = {
  node: requestBodies(5_000),
  "2025-11-25": toolCalls("2025-11-25"),
  "2026-07-28": toolCalls("2026-07-28"),
};

async function run(wanted: Load): Promise<Done> {
  const before = process.cpuUsage();
  try {
    const done =
      "bodies" in wanted
        ? await load({ ...wanted, bodies: bodies[wanted.bodies] })
        : await runStreams(wanted);
    const { user, system } = process.cpuUsage(before);
    return { ...done, cpuMicros: user + system };
  } catch (error) {
    return { failed: String(error) };
  }
}

process.on("message", (wanted: Load) => {
  void (async () => process.send?.(await run(wanted)))();
});
