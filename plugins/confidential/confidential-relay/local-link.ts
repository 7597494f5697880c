/** A link to an enclave in this process. It uses function calls instead of a socket, with the same backpressure. */
import { EnclaveSession, type EnclaveSessionDeps } from "../enclave/session.ts";
import { errorFrame, fault } from "../protocol/fault.ts";
import { LinkInbox, type EnclaveLink, type LinkListener } from "./link.ts";

export class LocalLink implements EnclaveLink {
  readonly #session: EnclaveSession;
  readonly #inbox = new LinkInbox();
  /** Calls that are queued while the link is paused, in order: chunks, final, report. */
  readonly #waiting: ((listener: LinkListener) => void)[] = [];
  #paused = false;
  #closed = false;

  constructor(deps: EnclaveSessionDeps) {
    this.#session = new EnclaveSession(deps, {
      text: (frame) => this.#deliver((listener) => listener.onText(Buffer.from(frame))),
      binary: (frame) => this.#deliverBinary(frame),
      close: (_, error) => {
        if (error !== undefined) {
          const text = errorFrame(fault(error.code, error.message));
          this.#deliver((listener) => listener.onText(Buffer.from(text)));
        }
        this.#deliver((listener) => listener.onEnd());
      },
    });
  }

  get listener(): LinkListener | undefined {
    return this.#inbox.listener;
  }

  set listener(listener: LinkListener | undefined) {
    this.#inbox.listener = listener;
  }

  text(frame: Uint8Array): void {
    this.#session.text(frame);
  }

  binary(frame: Uint8Array): boolean {
    this.#session.binary(frame);
    return true;
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    while (!this.#paused && !this.#closed) {
      const next = this.#waiting.shift();
      if (next === undefined) return this.#session.onDrain();
      this.#inbox.deliver(next);
    }
  }

  close(): void {
    this.#closed = true;
    this.#session.abort();
  }

  #deliverBinary(frame: Buffer): boolean {
    if (this.#paused) this.#deliver((listener) => listener.onBinary(frame));
    else if (!this.#closed) this.#inbox.binary(frame);
    return !this.#paused;
  }

  #deliver(notify: (listener: LinkListener) => void): void {
    if (this.#paused) this.#waiting.push(notify);
    else if (!this.#closed) this.#inbox.deliver(notify);
  }
}
