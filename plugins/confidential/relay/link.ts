/** The way to one enclave for one session: a WebSocket to a worker, or the gateway's own enclave in the same process. */

export interface EnclaveLink {
  /** Told what comes; what came before it is set waits for it. */
  listener: LinkListener | undefined;
  text(frame: Uint8Array): void;
  /** False asks to stop until `drained`. */
  binary(frame: Uint8Array): boolean;
  /** What comes waits until `resume`. */
  pause(): void;
  resume(): void;
  /** Nothing is told any more. */
  close(): void;
}

export interface LinkListener {
  text(frame: Buffer): void;
  binary(frame: Buffer): void;
  drained(): void;
  /** It has ended, and not by `close`. */
  ended(): void;
}

/**
 * What came before anybody listened, and the listener. For implementations of a link; one whose other end is a stranger has
 * to stop reading while nobody listens.
 */
export class LinkInbox {
  #listener: LinkListener | undefined;
  #early: ((listener: LinkListener) => void)[] = [];

  get listener(): LinkListener | undefined {
    return this.#listener;
  }

  set listener(listener: LinkListener | undefined) {
    this.#listener = listener;
    if (listener === undefined) return;
    for (const tell of this.#early.splice(0)) tell(listener);
  }

  /** Thousands a second: no closure for each. */
  binary(frame: Buffer): void {
    if (this.#listener === undefined) this.#early.push((listener) => listener.binary(frame));
    else this.#listener.binary(frame);
  }

  tell(what: (listener: LinkListener) => void): void {
    if (this.#listener === undefined) this.#early.push(what);
    else what(this.#listener);
  }
}
