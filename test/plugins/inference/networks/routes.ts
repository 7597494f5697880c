/** A way to a worker that nobody goes. */
import type { WorkerRoute } from "../../../../plugins/inference/networks/worker-route.ts";

export function untakenRoute(probe = (): Promise<boolean> => Promise.resolve(false)): WorkerRoute {
  return {
    admitted: true,
    evidence: "none",
    settled: Promise.resolve(),
    attempt: () => {
      throw new Error("nothing is sent here");
    },
    probe,
    listedAgain() {},
    close() {},
  };
}
