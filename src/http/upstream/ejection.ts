/**
 * Ejects a backend that fails, and probes it before it is used again, so that no caller's request is the test. Ejections
 * that follow one another last longer and longer.
 */
import type { Clock } from "../../contract/clock.ts";
import type { UpstreamFailure } from "../../contract/upstream-failure.ts";
import { failureText } from "./failure-cause.ts";

export interface EjectionPolicy {
  readonly failures: number;
  /** The same for a backend that has come back and has not answered a request since. */
  readonly failuresAfterReturn: number;
  /** Duration of the first cooldown. Each following one takes twice as long as the one before, up to `maxMs`. */
  readonly firstMs: number;
  readonly maxMs: number;
  /** Fraction of a cooldown that is added at random, so that several gateways do not return to a backend at once. */
  readonly jitter: number;
}

/** Why and until when a backend is not used, for `/readyz` and the dashboard. Times are in RFC 3339 format. */
export interface Absence {
  readonly reason: string;
  readonly since: string;
  /** When the backend is tried again. Missing if it is tried with every request. */
  readonly next_try?: string;
}

export class Ejection {
  readonly #policy: EjectionPolicy;
  readonly #clock: Clock;
  readonly #probe: () => void;
  /** Failures that a backend may still have before it is ejected. */
  #failuresLeft: number;
  #cooldownMs = 0;
  /** Monotonic time in milliseconds at which the last cooldown ended or will end. */
  #until: number | undefined;
  #timer: Disposable | undefined;
  #isClosed = false;
  /** The failure that ejected the backend, and the time in milliseconds since 1970. */
  #cause: UpstreamFailure | undefined;
  #since = 0;
  isEjected = false;

  /** `probe`: sends a probe to the backend at the end of a cooldown, and reports its outcome with `probed`. */
  constructor(policy: EjectionPolicy, clock: Clock, probe: () => void) {
    this.#policy = policy;
    this.#clock = clock;
    this.#probe = probe;
    this.#failuresLeft = policy.failures;
  }

  /** Returns true if the backend should be ejected now. `isCertain`: it alone is to blame, so one failure is enough. */
  failed(isCertain = false): boolean {
    this.#failuresLeft--;
    return !this.isEjected && (isCertain || this.#failuresLeft <= 0);
  }

  succeeded(): boolean {
    this.#failuresLeft = this.#policy.failures;
    return this.#return();
  }

  eject(cause: UpstreamFailure): void {
    if (this.isEjected || this.#isClosed) return;
    this.#cause = cause;
    this.#since = this.#clock.now();
    const { firstMs, maxMs } = this.#policy;
    const sinceMs = this.#clock.monotonic() - (this.#until ?? -Infinity);
    this.isEjected = true;
    this.#coolDown(sinceMs < maxMs ? 2 * this.#cooldownMs : firstMs);
  }

  get cause(): UpstreamFailure | undefined {
    return this.isEjected ? this.#cause : undefined;
  }

  get absence(): Absence | undefined {
    if (this.cause === undefined) return undefined;
    const leftMs = Math.max(0, (this.#until ?? 0) - this.#clock.monotonic());
    return {
      reason: failureText(this.cause),
      since: new Date(this.#since).toISOString(),
      next_try: new Date(this.#clock.now() + leftMs).toISOString(),
    };
  }

  /** Reports the outcome of a probe; one that ends during a cooldown does not count. Returns true if the backend is back. */
  probed(isGood: boolean): boolean {
    const isCooling = this.#clock.monotonic() < (this.#until ?? 0);
    if (!this.isEjected || this.#isClosed || isCooling) return false;
    if (!isGood) {
      this.#coolDown(2 * this.#cooldownMs);
      return false;
    }
    this.#failuresLeft = this.#policy.failuresAfterReturn;
    return this.#return();
  }

  /** Stops probing. The backend is never ejected again. */
  close(): void {
    this.#isClosed = true;
    this.#timer?.[Symbol.dispose]();
  }

  #coolDown(ms: number): void {
    this.#cooldownMs = Math.min(ms, this.#policy.maxMs);
    const untilMs = Math.round(this.#cooldownMs * (1 + Math.random() * this.#policy.jitter));
    this.#until = this.#clock.monotonic() + untilMs;
    this.#timer?.[Symbol.dispose]();
    this.#timer = this.#clock.after(untilMs, this.#probe);
  }

  #return(): boolean {
    if (!this.isEjected) return false;
    this.isEjected = false;
    this.#timer?.[Symbol.dispose]();
    return true;
  }
}
