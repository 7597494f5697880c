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

/** Kinds of faults after which Redis has lost its data. */
const losses: readonly string[] = ["empty Redis", "kill Redis"];
/** Time for which a replica may use the tokens that it held when the data was lost. */
const heldMs = 1_000;
/** A replica reports an outage after a call without an answer, and its line is read later on a busy machine. */
const reportMs = 1_000;

export interface Outage {
  readonly from: number;
  readonly to: number;
}

/** Reads the logs of the replicas, which report each outage and its end. */
export class RedisOutages {
  readonly #ended: Outage[] = [];
  /** The starts of outages that have not ended, by replica. */
  readonly #running = new Map<string, number>();

  read(replica: string, line: string, at: number): void {
    if (line.includes("Redis does not answer")) this.#running.set(replica, at);
    if (line.includes("Redis is reachable")) this.end(replica, at);
  }

  end(replica: string, at: number): void {
    const from = this.#running.get(replica);
    if (from !== undefined) this.#ended.push({ from, to: at });
    this.#running.delete(replica);
  }

  all(now: number): readonly Outage[] {
    return [...this.#ended, ...Array.from(this.#running.values(), (from) => ({ from, to: now }))];
  }
}

/**
 * Returns one disruption per loss of data, and one per time in which replicas could not reach Redis, because of a fault
 * or because an answer took more than the 50 ms after which Redis counts as unreachable. A replica asks Redis again
 * every second, so some may still use their shares when others have reached it: their outages are one.
 */
export function redisDisruptions(
  done: readonly Pick<DoneFault, "kind" | "begunAt" | "repairedAt">[],
  outages: readonly Outage[],
): Disruption[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of outages.toSorted((left, right) => left.from - right.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from - reportMs <= last.to) last.to = Math.max(last.to, to);
    else merged.push({ from: from - reportMs, to });
  }
  return [
    ...done
      .filter(({ kind }) => losses.includes(kind))
      .map(({ begunAt, repairedAt }) => {
        return { from: begunAt, to: repairedAt + heldMs, extra: ofLostData };
      }),
    ...merged.map((outage) => ({ ...outage, extra: ofOutage })),
  ];
}
