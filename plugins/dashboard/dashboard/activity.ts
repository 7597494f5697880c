/** The activity of the last ten minutes, of all callers and each group, and single exchanges while a user watches. */
import type { SettledExchange } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/internal/toolkit";

export const stepMs = 5_000;
/** Number of steps that are kept: ten minutes. */
export const steps = 120;
const latestDurations = 256;
/** Maximum number of exchanges that are kept for filters, of all callers and of each watched group. */
export const keptExchanges = 2_000;
/** Number of refused and failed exchanges that are kept while no user watches. */
const keptRefused = 200;
/** Single exchanges are kept until they have not been requested for this time. */
const watchedMs = 15_000;
/** Above this number, the group that was first seen longest ago is deleted. A tally takes about 3 KB. */
const maxGroups = 4_096;

export class Activity {
  readonly all = new Tally();
  readonly #groups = new BoundedMap<string, Tally>(maxGroups);
  /** The latest refused and failed exchanges of all callers, for a user who begins to watch after an incident. */
  readonly #refused: SettledExchange[] = [];
  #nextRefused = 0;

  settled(exchange: SettledExchange): void {
    this.all.add(exchange);
    const { caller } = exchange.facts;
    if (caller !== undefined) this.#tallyOf(caller.group).add(exchange);
    if (exchange.code === undefined) return;
    this.#refused[this.#nextRefused] = exchange;
    this.#nextRefused = (this.#nextRefused + 1) % keptRefused;
  }

  /** Returns an empty tally if no caller of the group has made a request since the start. */
  group(name: string): Tally {
    return this.#groups.peek(name) ?? new Tally();
  }

  /** Returns the latest exchanges, newest first. See `Tally.watch`. */
  watch(now: number, group?: string): readonly SettledExchange[] {
    const tally = group === undefined ? this.all : this.group(group);
    return tally.watch(now, () => {
      const inOrder = [
        ...this.#refused.slice(this.#nextRefused),
        ...this.#refused.slice(0, this.#nextRefused),
      ];
      return inOrder.filter(({ facts }) => group === undefined || facts.caller?.group === group);
    });
  }

  #tallyOf(id: string): Tally {
    const known = this.#groups.peek(id);
    if (known !== undefined) return known;
    const tally = new Tally();
    this.#groups.set(id, tally);
    return tally;
  }
}

export class Tally {
  readonly requests = new RecentCounter();
  readonly refused = new RecentCounter();
  readonly failed = new RecentCounter();
  readonly #refusals = new Map<string, RecentCounter>();
  readonly #durations = new Float32Array(latestDurations);
  /** A ring: `#kept` counts all exchanges that were added. */
  #latest: SettledExchange[] = [];
  #kept = 0;
  #watchedUntil = 0;

  add(exchange: SettledExchange): void {
    const { status, code, ms } = exchange;
    const now = exchange.arrivedAt + ms;
    this.#durations[this.requests.total % latestDurations] = ms;
    this.requests.add(now);
    if (status >= 500) this.failed.add(now);
    if (code !== undefined) {
      this.refused.add(now);
      let counts = this.#refusals.get(code);
      if (counts === undefined) {
        counts = new RecentCounter();
        this.#refusals.set(code, counts);
      }
      counts.add(now);
    }
    if (now < this.#watchedUntil) this.#keep(exchange);
  }

  get refusals(): ReadonlyMap<string, RecentCounter> {
    return this.#refusals;
  }

  /** The durations of the latest exchanges in milliseconds, in no order. */
  get durations(): Float32Array {
    return this.#durations.slice(0, Math.min(this.requests.total, latestDurations));
  }

  /**
   * Returns the latest exchanges, newest first. They are kept for 15 seconds after each call. `earlier`: returns those
   * that ended before anyone watched, oldest first.
   */
  watch(now: number, earlier: () => SettledExchange[] = () => []): readonly SettledExchange[] {
    if (now >= this.#watchedUntil) {
      this.#latest = earlier();
      this.#kept = this.#latest.length;
    }
    this.#watchedUntil = now + watchedMs;
    const next = this.#kept % keptExchanges;
    const older = this.#kept > keptExchanges ? this.#latest.slice(next) : [];
    const newer = this.#latest.slice(0, this.#kept > keptExchanges ? next : undefined);
    return [...older, ...newer].toReversed();
  }

  #keep(exchange: SettledExchange): void {
    this.#latest[this.#kept % keptExchanges] = exchange;
    this.#kept++;
  }
}

export class RecentCounter {
  readonly #counts = new Uint32Array(steps);
  #newest = 0;
  total = 0;

  add(now: number): void {
    const step = this.#moveTo(now);
    this.#counts[step % steps] = (this.#counts[step % steps] ?? 0) + 1;
    this.total++;
  }

  /** Returns the oldest step first. The last step has not ended yet. */
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

/** Returns the milliseconds within which a share `q` (0 to 1) of exchanges ended. Undefined without exchanges. */
export function quantile(durations: readonly number[], q: number): number | undefined {
  return durations.toSorted((a, b) => a - b)[Math.ceil(q * durations.length) - 1];
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}
