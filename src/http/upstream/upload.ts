/** A request body that is streamed from the client's connection to an upstream, with backpressure. */
import type { Readable } from "node:stream";
import type { RequestBodyWriter, RequestStream } from "./http1/exchange.ts";

export type UploadFailure = "tooLarge" | "clientLeft";

export class Upload implements RequestStream {
  readonly length: number | undefined;
  /** Called when the upload fails on the client's side. */
  onFailure: (failure: UploadFailure) => void = ignore;
  readonly #open: () => Readable;
  readonly #maxBytes: number;
  #source: Readable | undefined;
  #to: RequestBodyWriter | undefined;
  #bytes = 0;

  /**
   * `open`: returns the client's stream. It is called only when an upstream is ready to read, because it asks a client
   * that waits for `100 Continue` to send. `length`: size of the body, if it is known. `maxBytes`: a larger body fails
   * before the excess is passed on.
   */
  constructor(open: () => Readable, length: number | undefined, maxBytes: number) {
    this.#open = open;
    this.length = length;
    this.#maxBytes = maxBytes;
  }

  start(to: RequestBodyWriter): void {
    const source = this.#open();
    this.#to = to;
    this.#source = source;
    source.on("error", ignore);
    source.once("end", this.#onEnd);
    source.once("close", this.#onClose);
    source.on("data", this.#onData);
    source.resume();
  }

  resume(): void {
    this.#source?.resume();
  }

  /** Stops sending. The rest of the body is read and dropped, so that the client's connection remains usable. */
  close(): void {
    const source = this.#source;
    this.#source = undefined;
    source?.off("data", this.#onData);
    source?.off("end", this.#onEnd);
    source?.off("close", this.#onClose);
    source?.resume();
  }

  #fail(failure: UploadFailure): void {
    this.close();
    this.onFailure(failure);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#bytes += chunk.length;
    if (this.#bytes > this.#maxBytes) this.#fail("tooLarge");
    else if (this.#to?.write(chunk) === false) this.#source?.pause();
  };

  readonly #onEnd = (): void => this.#to?.end();

  readonly #onClose = (): void => {
    if (this.#source?.readableEnded === false) this.#fail("clientLeft");
  };
}

function ignore(): void {}
