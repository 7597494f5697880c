/** A connection to an enclave for one session: a WebSocket to a worker, or a call into this process. */

export interface EnclaveLink {
  /** Frames that arrive before the listener is set are queued. */
  listener: LinkListener | undefined;
  text(frame: Uint8Array): void;
  /** Returns false if the caller should stop sending until `onDrain` is called. */
  binary(frame: Uint8Array): boolean;
  pause(): void;
  resume(): void;
  /** The listener is not called any more. */
  close(): void;
}

export interface LinkListener {
  onText(frame: Buffer): void;
  onBinary(frame: Buffer): void;
  onDrain(): void;
  /** Called when the link has ended for a reason other than `close`. */
  onEnd(): void;
}

/**
 * The listener of a link, and the frames that arrive before it is set. If the other end of the link is not trusted, the
 * implementation must stop reading until a listener is set.
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
    for (const notify of this.#early.splice(0)) notify(listener);
  }

  /** This does not create a closure per frame, because there can be thousands of frames per second. */
  binary(frame: Buffer): void {
    if (this.#listener === undefined) this.#early.push((listener) => listener.onBinary(frame));
    else this.#listener.onBinary(frame);
  }

  deliver(notify: (listener: LinkListener) => void): void {
    if (this.#listener === undefined) this.#early.push(notify);
    else notify(this.#listener);
  }
}
