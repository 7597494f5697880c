/** Finds the times around which request rates may be exceeded, and by how much. */
import { rateLimit } from "./accounts.ts";
import type { Disruption } from "../../checker/history.ts";
import type { DoneFault } from "./run-faults.ts";

const { burst } = rateLimit;
/**
 * Without Redis, each replica allows its share of burst and rate. These shares are taken with every request, so that
 * all replicas together gain at most one burst, however often Redis becomes unreachable in that time.
 */
const ofOutage = burst;
/** Without its data, Redis gives a full burst again, in addition to the tokens that are held: a quarter of the burst. */
const ofLostData = burst + burst / 4;

const extras: Readonly<Record<string, number>> = {
  "stop Redis": ofOutage,
  "empty Redis": ofLostData,
  "kill Redis": ofOutage + ofLostData,
};

/**
 * A replica asks Redis again every second during an outage, and each replica notices it at its next request. Warnings
 * within this time are therefore about the same outage.
 */
const sameOutageMs = 1_500;

/**
 * Returns one disruption per fault of Redis, and one per outage that only warnings show: on a busy machine, an answer
 * may take more than the 50 ms after which Redis counts as unreachable. `warnings`: times of the warnings of all
 * replicas.
 */
export function redisDisruptions(
  done: readonly Pick<DoneFault, "kind" | "begunAt" | "repairedAt">[],
  warnings: readonly number[],
): Disruption[] {
  const faults = done.filter(({ kind }) => extras[kind] !== undefined);
  const outages = faults.filter(({ kind }) => kind !== "empty Redis");
  const unexplained = warnings
    .filter((at) => {
      const isIn = ({ begunAt, repairedAt }: (typeof outages)[number]): boolean =>
        at >= begunAt && at <= repairedAt + sameOutageMs;
      return !outages.some(isIn);
    })
    .toSorted((left, right) => left - right);
  const begins: number[] = [];
  for (const at of unexplained) {
    if (at - (begins.at(-1) ?? -Infinity) > sameOutageMs) begins.push(at);
  }
  return [
    ...faults.map(({ kind, begunAt, repairedAt }) => {
      return { from: begunAt, to: repairedAt + 1_000, extra: extras[kind] ?? 0 };
    }),
    ...begins.map((at) => ({ from: at - 1_000, to: at + sameOutageMs + 2_000, extra: ofOutage })),
  ];
}
