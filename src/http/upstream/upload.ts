/**
 * A request body on its way to an upstream. It stands between the client's stream and undici, because undici destroys
 * the stream it is given, also one that was sent whole, and detaches it from the client's socket.
 */
import { Readable } from "node:stream";

/** Why an upload broke off on the client's side. */
export class UploadError extends Error {
  readonly reason: "tooLarge" | "clientLeft";

  constructor(reason: "tooLarge" | "clientLeft") {
    super(reason);
    this.reason = reason;
  }
}

export class Upload extends Readable {
  readonly #open: () => Readable;
  readonly #mostBytes: number;
  #source: Readable | undefined;
  #bytes = 0;

  /**
   * `open` gives the client's stream; it is called when an upstream is ready to read, and not before: it tells a client
   * that waits for `100 Continue` to send. A body of more than `mostBytes` fails before its excess is passed on.
   */
  constructor(open: () => Readable, mostBytes: number) {
    super();
    this.#open = open;
    this.#mostBytes = mostBytes;
    // An upstream that is done early destroys us with its own reason, which the answer already tells.
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

  /** What the client still sends is read and dropped: its connection stays usable for the next request. */
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

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#mostBytes) this.destroy(new UploadError("tooLarge"));
    else if (!this.push(chunk)) this.#source?.pause();
  };

  readonly #onEnd = (): void => void this.push(null);

  readonly #onClose = (): void => {
    if (this.#source?.readableEnded !== true) this.destroy(new UploadError("clientLeft"));
  };
}

function ignore(): void {}
