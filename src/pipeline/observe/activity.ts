/**
 * The current activity, for the dashboard: of all callers together and of each group of callers, the last ten minutes in steps
 * of five seconds, refusals by reason, the latest durations, and single exchanges while somebody watches.
 */
import { BoundedMap } from "../../bounded-map.ts";
import type { ActivityTally, EndedExchange, GatewayActivity, RecentCount } from "../../plugin.ts";
import type { ExchangeRecord } from "./record.ts";

export const stepMs = 5_000;
/** Ten minutes. */
export const steps = 120;
/** Number of durations from which the percentiles are computed. */
const latestDurations = 256;
const latestExchanges = 100;
/** Single exchanges are kept until nobody has asked for them for this long. */
const watchedMs = 15_000;
/** Above this number, the group that was first seen longest ago is forgotten. A tally takes about 3 KB. */
const maxGroups = 4_096;

export class Activity implements GatewayActivity {
  readonly stepMs = stepMs;
  readonly all = new Tally();
  readonly #groups = new BoundedMap<string, Tally>(maxGroups);

  settled(record: ExchangeRecord): void {
    this.all.add(record);
    const { caller } = record.facts;
    if (caller !== undefined) this.#tallyOf(caller.group).add(record);
  }

  group(name: string): Tally {
    return this.#groups.peek(name) ?? new Tally();
  }

  #tallyOf(id: string): Tally {
    const known = this.#groups.peek(id);
    if (known !== undefined) return known;
    const tally = new Tally();
    this.#groups.set(id, tally);
    return tally;
  }
}

/** The exchanges that have ended, of all callers or of one group. */
export class Tally implements ActivityTally {
  readonly requests = new Recent();
  readonly refused = new Recent();
  /** Exchanges that were answered with a status of 500 or more. */
  readonly failed = new Recent();
  readonly #refusals = new Map<string, Recent>();
  readonly #durations = new Float32Array(latestDurations);
  #latest: ExchangeRecord[] = [];
  #watchedUntil = 0;

  add(record: ExchangeRecord): void {
    const { status, code, ms } = record;
    const now = record.arrivedAt + ms;
    this.#durations[this.requests.total % latestDurations] = ms;
    this.requests.add(now);
    if (status >= 500) this.failed.add(now);
    if (code !== undefined) {
      this.refused.add(now);
      let counts = this.#refusals.get(code);
      if (counts === undefined) {
        counts = new Recent();
        this.#refusals.set(code, counts);
      }
      counts.add(now);
    }
    if (now < this.#watchedUntil) this.#keep(record);
  }

  /** Refusals by GATEWAY code. */
  get refusals(): ReadonlyMap<string, Recent> {
    return this.#refusals;
  }

  /**
   * Returns the milliseconds within which a share `q` (0 to 1) of the latest exchanges ended. Undefined without any.
   */
  quantile(q: number): number | undefined {
    const known = Math.min(this.requests.total, latestDurations);
    if (known === 0) return undefined;
    return this.#durations.slice(0, known).sort()[Math.ceil(q * known) - 1];
  }

  /** Returns the latest exchanges, newest first. They are kept while somebody asks every few seconds. */
  watch(now: number): readonly EndedExchange[] {
    if (now >= this.#watchedUntil) this.#latest = [];
    this.#watchedUntil = now + watchedMs;
    return this.#latest.toReversed().map(endedExchange);
  }

  #keep(record: ExchangeRecord): void {
    if (this.#latest.length >= latestExchanges) this.#latest.shift();
    this.#latest.push(record);
  }
}

function endedExchange({ facts, ...record }: ExchangeRecord): EndedExchange {
  const { requestId, caller, costMilliCu } = facts;
  return {
    at: record.arrivedAt,
    ms: record.ms,
    method: record.method,
    route: record.route.path,
    status: record.status,
    code: record.code,
    callerId: caller?.id,
    callerGroup: caller?.group,
    requestId,
    costMilli: costMilliCu,
    calls: record.calls,
  };
}

/** Counts events: in the last ten minutes step by step, and since the start. */
export class Recent implements RecentCount {
  readonly #counts = new Uint32Array(steps);
  #newest = 0;
  total = 0;

  add(now: number): void {
    const step = this.#moveTo(now);
    this.#counts[step % steps] = (this.#counts[step % steps] ?? 0) + 1;
    this.total++;
  }

  /** Returns the counts of the steps, oldest first. The last step is not over yet. */
  read(now: number): number[] {
    const step = this.#moveTo(now);
    return Array.from({ length: steps }, (_, i) => this.#counts[(step + 1 + i) % steps] ?? 0);
  }

  /** If the clock goes back, events count in the newest step. */
  #moveTo(now: number): number {
    const step = Math.floor(now / stepMs);
    if (step > this.#newest) {
      if (step - this.#newest >= steps) this.#counts.fill(0);
      else for (let past = this.#newest + 1; past <= step; past++) this.#counts[past % steps] = 0;
      this.#newest = step;
    }
    return this.#newest;
  }
}
