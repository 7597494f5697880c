/** Reads a request body whole, up to a cap. */
import type { IncomingMessage } from "node:http";

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "tooLarge" };

const none: BodyResult = { kind: "body", body: Buffer.alloc(0) };
export const tooLarge: BodyResult = { kind: "tooLarge" };

/** Where a request keeps its reader: listeners find it through `this`, so that none has to be made for a request. */
const reader = Symbol("body reader");
type ReadRequest = IncomingMessage & { [reader]?: BodyReader<unknown> };

/**
 * Calls `done(owner, result)` once, or never when the client leaves before its body is complete: the close of the
 * response tells that. The cap is checked against `Content-Length` before a byte is read, and against what really
 * arrives; what comes after `tooLarge` is dropped.
 */
export function readBody<Owner>(
  request: ReadRequest,
  capBytes: number,
  owner: Owner,
  done: (owner: Owner, result: BodyResult) => void,
): void {
  const announced = request.headers["content-length"];
  if (announced !== undefined && Number(announced) > capBytes) return done(owner, tooLarge);
  if (announced === "0") return done(owner, none);
  // The reader is only ever asked to hand its own owner to its own `done`.
  request[reader] = new BodyReader(capBytes, owner, done) as BodyReader<unknown>;
  request.on("data", onData);
  request.on("end", onEnd);
}

function onData(this: ReadRequest, chunk: Buffer): void {
  this[reader]?.take(chunk);
}

function onEnd(this: ReadRequest): void {
  this[reader]?.end();
}

class BodyReader<Owner> {
  readonly #capBytes: number;
  readonly #owner: Owner;
  readonly #done: (owner: Owner, result: BodyResult) => void;
  /** Nearly every call fits one chunk: it is then handed on as it came, without a copy. */
  #first: Buffer | undefined;
  #rest: Buffer[] | undefined;
  #bytes = 0;

  constructor(capBytes: number, owner: Owner, done: (owner: Owner, result: BodyResult) => void) {
    this.#capBytes = capBytes;
    this.#owner = owner;
    this.#done = done;
  }

  take(chunk: Buffer): void {
    const had = this.#bytes;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#capBytes) {
      this.#first = undefined;
      this.#rest = undefined;
      if (had <= this.#capBytes) this.#done(this.#owner, tooLarge);
    } else if (this.#first === undefined) this.#first = chunk;
    else if (this.#rest === undefined) this.#rest = [this.#first, chunk];
    else this.#rest.push(chunk);
  }

  end(): void {
    if (this.#bytes > this.#capBytes) return;
    if (this.#first === undefined) return this.#done(this.#owner, none);
    const body = this.#rest === undefined ? this.#first : Buffer.concat(this.#rest, this.#bytes);
    // Its listeners stay with the request, for as long as the answer takes.
    this.#first = undefined;
    this.#rest = undefined;
    this.#done(this.#owner, { kind: "body", body });
  }
}
