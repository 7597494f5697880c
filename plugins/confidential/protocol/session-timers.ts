/** The timeouts of a session (confidential-stream.md, 1.3). The session ends itself when a handler is called. */
import type { Clock } from "sluice-gateway/plugin";
import { handshakeMs, idleMs, maxSessionMs, requestMs } from "./limits.ts";

export interface SessionTimerHandlers {
  handshakeTimeout(): void;
  idleTimeout(): void;
  /** Returns true while silence is expected, which prevents `idleTimeout`. Missing if silence is never expected. */
  isSilenceExpected?(): boolean;
  requestTimeout(): void;
  sessionTimeout(): void;
}

export class SessionTimers implements Disposable {
  readonly #clock: Clock;
  readonly #handlers: SessionTimerHandlers;
  #lastFrameAt = 0;
  /** The timer for the handshake, and later for silence. */
  #silence: Disposable;
  #lifetime: Disposable | undefined;
  #request: Disposable | undefined;

  constructor(clock: Clock, handlers: SessionTimerHandlers) {
    this.#clock = clock;
    this.#handlers = handlers;
    this.#silence = clock.after(handshakeMs, () => handlers.handshakeTimeout());
  }

  /** Call when the handshake is complete. `until`: latest end of the session, in milliseconds since 1970. */
  begin(until: number): void {
    this.#silence[Symbol.dispose]();
    this.onFrame();
    this.#watchSilence(idleMs);
    const ms = Math.min(maxSessionMs, until - this.#clock.now());
    this.#lifetime = this.#clock.after(Math.max(0, ms), () => this.#handlers.sessionTimeout());
  }

  onFrame(): void {
    this.#lastFrameAt = this.#clock.monotonic();
  }

  /** Call for each frame of a request that is not its last. The first of them starts the timer. */
  onRequestFrame(): void {
    this.#request ??= this.#clock.after(requestMs, () => this.#handlers.requestTimeout());
  }

  /** Call when the request is complete or was cancelled. */
  onRequestEnd(): void {
    this.#request?.[Symbol.dispose]();
    this.#request = undefined;
  }

  [Symbol.dispose](): void {
    this.onRequestEnd();
    this.#silence[Symbol.dispose]();
    this.#lifetime?.[Symbol.dispose]();
  }

  #watchSilence(ms: number): void {
    this.#silence = this.#clock.after(ms, () => {
      const silentMs = this.#clock.monotonic() - this.#lastFrameAt;
      if (this.#handlers.isSilenceExpected?.() === true) this.#watchSilence(idleMs);
      else if (silentMs < idleMs) this.#watchSilence(idleMs - silentMs);
      else this.#handlers.idleTimeout();
    });
  }
}
