/**
 * The time that a session has (confidential-stream.md, 1.3): for its handshake, without a frame, for a request to
 * arrive, and in all. Whoever keeps one end of it is told what has run out, and ends it.
 */
import type { Clock } from "../../../src/services/clock.ts";
import { handshakeMs, idleMs, maxSessionMs, requestMs } from "./limits.ts";

export interface SessionTimerHandlers {
  /** The handshake took too long. */
  late(): void;
  /** No frame has come or gone for too long. */
  idle(): void;
  /** Whether silence is to be expected; asked when it has lasted. Absent: never. */
  isAwaited?(): boolean;
  /** A request has not come to its end. Absent: nobody tells when one begins. */
  unfinished?(): void;
  /** It has lasted as long as it may. */
  expired(): void;
}

export class SessionTimers implements Disposable {
  readonly #clock: Clock;
  readonly #timeouts: SessionTimerHandlers;
  #lastFrameAt = 0;
  /** First for the handshake, then for silence. */
  #silence: Disposable;
  #lifetime: Disposable | undefined;
  #request: Disposable | undefined;

  /** Begins with the handshake. */
  constructor(clock: Clock, timeouts: SessionTimerHandlers) {
    this.#clock = clock;
    this.#timeouts = timeouts;
    this.#silence = clock.after(handshakeMs, () => timeouts.late());
  }

  /** The handshake is done. `until`: milliseconds since 1970, beyond which it must not last. */
  begin(until: number): void {
    this.#silence[Symbol.dispose]();
    this.frame();
    this.#watchSilence(idleMs);
    const ms = Math.min(maxSessionMs, until - this.#clock.now());
    this.#lifetime = this.#clock.after(Math.max(0, ms), () => this.#timeouts.expired());
  }

  /** One has come or gone. */
  frame(): void {
    this.#lastFrameAt = this.#clock.monotonic();
  }

  /** A frame of a request has come that is not its last. */
  requestGoesOn(): void {
    this.#request ??= this.#clock.after(requestMs, () => this.#timeouts.unfinished?.());
  }

  /** The request is whole, or nobody wants it any more. */
  requestEnds(): void {
    this.#request?.[Symbol.dispose]();
    this.#request = undefined;
  }

  [Symbol.dispose](): void {
    this.requestEnds();
    this.#silence[Symbol.dispose]();
    this.#lifetime?.[Symbol.dispose]();
  }

  #watchSilence(ms: number): void {
    this.#silence = this.#clock.after(ms, () => {
      const silentMs = this.#clock.monotonic() - this.#lastFrameAt;
      if (this.#timeouts.isAwaited?.() === true) this.#watchSilence(idleMs);
      else if (silentMs < idleMs) this.#watchSilence(idleMs - silentMs);
      else this.#timeouts.idle();
    });
  }
}
