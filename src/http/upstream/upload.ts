/**
 * A request body that is streamed to an upstream. It separates the client's stream from undici, because undici destroys
 * the stream that it was given, even after it was sent completely, and detaches it from the client's socket.
 */
import { Readable } from "node:stream";

export class Upload extends Readable {
  /** The reason why the upload failed on the client's side. Undefined if it did not. */
  failure: "tooLarge" | "clientLeft" | undefined;
  readonly #open: () => Readable;
  readonly #maxBytes: number;
  #source: Readable | undefined;
  #bytes = 0;

  /**
   * `open`: returns the client's stream. It is called only when an upstream is ready to read, because it asks a client
   * that waits for `100 Continue` to send. `maxBytes`: a larger body fails before the excess is passed on.
   */
  constructor(open: () => Readable, maxBytes: number) {
    super();
    this.#open = open;
    this.#maxBytes = maxBytes;
    // undici destroys this stream with an error if the upstream ends early. The answer already reports that.
    this.on("error", ignore);
  }

  override _read(): void {
    if (this.#source === undefined) this.#attach(this.#open());
    else this.#source.resume();
  }

  #attach(source: Readable): void {
    this.#source = source;
    source.on("data", this.#onData);
    source.once("end", this.#onEnd);
    source.once("close", this.#onClose);
    source.on("error", ignore);
  }

  /** The rest of the client's body is read and dropped, so that its connection remains usable for the next request. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const source = this.#source;
    if (source !== undefined) {
      source.off("data", this.#onData);
      source.off("end", this.#onEnd);
      source.off("close", this.#onClose);
      source.resume();
    }
    done(error);
  }

  #fail(reason: "tooLarge" | "clientLeft"): void {
    this.failure = reason;
    this.destroy(new Error(reason));
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) this.#fail("tooLarge");
    else if (!this.push(chunk)) this.#source?.pause();
  };

  readonly #onEnd = (): void => void this.push(null);

  readonly #onClose = (): void => {
    if (this.#source?.readableEnded !== true) this.#fail("clientLeft");
  };
}

function ignore(): void {}
