/** The link to an enclave in the same process: calls instead of a socket, with the same backpressure. */
import {
  openEnclaveSession,
  type EnclaveSession,
  type EnclaveSessionDeps,
} from "../enclave/session.ts";
import { errorFrame, fault } from "../protocol/fault.ts";
import { LinkInbox, type EnclaveLink, type LinkListener } from "./link.ts";

export class LocalLink implements EnclaveLink {
  readonly #session: EnclaveSession;
  readonly #inbox = new LinkInbox();
  /** What comes while it is paused: an answer's end follows its chunks, its report the end. */
  readonly #waiting: ((listener: LinkListener) => void)[] = [];
  #paused = false;
  #closed = false;

  constructor(parts: EnclaveSessionDeps) {
    this.#session = openEnclaveSession(parts, {
      text: (frame) => this.#tell((listener) => listener.text(Buffer.from(frame))),
      binary: (frame) => this.#take(frame),
      close: (_, error) => {
        if (error !== undefined) {
          const text = errorFrame(fault(error.code, error.message));
          this.#tell((listener) => listener.text(Buffer.from(text)));
        }
        this.#tell((listener) => listener.ended());
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
      if (next === undefined) return this.#session.drained();
      this.#inbox.tell(next);
    }
  }

  close(): void {
    this.#closed = true;
    this.#session.left();
  }

  #take(frame: Buffer): boolean {
    if (this.#paused) this.#tell((listener) => listener.binary(frame));
    else if (!this.#closed) this.#inbox.binary(frame);
    return !this.#paused;
  }

  #tell(what: (listener: LinkListener) => void): void {
    if (this.#paused) this.#waiting.push(what);
    else if (!this.#closed) this.#inbox.tell(what);
  }
}
