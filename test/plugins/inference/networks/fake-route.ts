/** Returns a route to a worker that no request uses. */
import type { WorkerRoute } from "sluice-gateway/services";

export function fakeRoute(probe = (): Promise<boolean> => Promise.resolve(false)): WorkerRoute {
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
