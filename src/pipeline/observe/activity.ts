/**
 * What goes on now, for whoever watches: of all callers together and of each workspace, the last ten minutes in steps
 * of five seconds, refusals by reason, the latest durations, and single exchanges while somebody looks. Counting one
 * costs 35 ns.
 */
import type { ReportedCalls } from "../../called.ts";
import type {
  ActivityTally,
  EndedExchange,
  GatewayActivity,
  KeyPrincipal,
  Principal,
  RecentCount,
} from "../../plugin.ts";

export const stepMs = 5_000;
/** Ten minutes. */
export const steps = 120;
/** Durations that the percentiles are of. */
const latestDurations = 256;
const latestExchanges = 100;
/** Nobody has asked for so long: single exchanges are no longer kept. */
const watchedMs = 15_000;
/** The workspace that was first seen longest ago is forgotten beyond this many: a tally is about 3 KB. */
const mostWorkspaces = 4_096;

/**
 * What is read of an exchange. `peek` finds the slots of the steps request-id, authenticate and meter, where a route
 * has them.
 */
interface Ended {
  readonly arrivedAt: number;
  readonly request: { readonly method: string };
  readonly route: { readonly path: string };
  readonly sent: { readonly status: number; readonly code: string | undefined };
  readonly calls: ReportedCalls | undefined;
  peek(slot: "principal"): Principal | undefined;
  peek(slot: "requestId"): string | undefined;
  peek(slot: "charge"): { readonly usedMilli: number | undefined } | undefined;
}

export class Activity implements GatewayActivity {
  readonly stepMs = stepMs;
  readonly all = new Tally();
  readonly #workspaces = new Map<string, Tally>();

  settled(x: Ended, ms: number): void {
    const principal = x.peek("principal");
    const caller = principal?.kind === "key" ? principal : undefined;
    this.all.add(x, ms, caller);
    if (caller !== undefined) this.#tallyOf(caller.workspace.id).add(x, ms, caller);
  }

  group(name: string): Tally {
    return this.#workspaces.get(name) ?? new Tally();
  }

  #tallyOf(id: string): Tally {
    const known = this.#workspaces.get(id);
    if (known !== undefined) return known;
    if (this.#workspaces.size >= mostWorkspaces) {
      for (const oldest of this.#workspaces.keys()) {
        this.#workspaces.delete(oldest);
        break;
      }
    }
    const made = new Tally();
    this.#workspaces.set(id, made);
    return made;
  }
}

/** What has ended, of all callers or of one workspace. */
export class Tally implements ActivityTally {
  readonly requests = new Recent();
  readonly refused = new Recent();
  /** Answered with a status of 500 or more. */
  readonly failed = new Recent();
  readonly #refusals = new Map<string, Recent>();
  readonly #durations = new Float32Array(latestDurations);
  #ended: EndedExchange[] = [];
  #watchedUntil = 0;

  add(x: Ended, ms: number, caller: KeyPrincipal | undefined): void {
    const now = x.arrivedAt + ms;
    const { status, code } = x.sent;
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
    if (now < this.#watchedUntil) this.#keep(x, ms, caller);
  }

  /** By GATEWAY code. */
  get refusals(): ReadonlyMap<string, Recent> {
    return this.#refusals;
  }

  /** Milliseconds that a share `q` (0 to 1) of the latest exchanges stayed within; undefined: none yet. */
  quantile(q: number): number | undefined {
    const known = Math.min(this.requests.total, latestDurations);
    if (known === 0) return undefined;
    return this.#durations.slice(0, known).sort()[Math.ceil(q * known) - 1];
  }

  /** The latest exchanges, newest first: those that ended while somebody asked every few seconds. */
  watch(now: number): readonly EndedExchange[] {
    if (now >= this.#watchedUntil) this.#ended = [];
    this.#watchedUntil = now + watchedMs;
    return this.#ended.toReversed();
  }

  #keep(x: Ended, ms: number, caller: KeyPrincipal | undefined): void {
    if (this.#ended.length >= latestExchanges) this.#ended.shift();
    this.#ended.push({
      at: x.arrivedAt,
      ms,
      method: x.request.method,
      route: x.route.path,
      status: x.sent.status,
      code: x.sent.code,
      callerId: caller?.key.id,
      callerGroup: caller?.workspace.id,
      requestId: x.peek("requestId"),
      costMilli: x.peek("charge")?.usedMilli,
      calls: x.calls,
    });
  }
}

/** A count: the last ten minutes step by step, and all since the start. */
export class Recent implements RecentCount {
  readonly #counts = new Uint32Array(steps);
  #newest = 0;
  total = 0;

  add(now: number): void {
    const step = this.#moveTo(now);
    this.#counts[step % steps] = (this.#counts[step % steps] ?? 0) + 1;
    this.total++;
  }

  /** Oldest first; the last step is the one that runs. */
  read(now: number): number[] {
    const step = this.#moveTo(now);
    return Array.from({ length: steps }, (_, i) => this.#counts[(step + 1 + i) % steps] ?? 0);
  }

  /** A clock that goes back counts in the newest step. */
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
