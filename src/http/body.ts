/** Reads a request body whole, up to a cap. */
import type { IncomingMessage } from "node:http";

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "tooLarge" };

const none: BodyResult = { kind: "body", body: Buffer.alloc(0) };
export const tooLarge: BodyResult = { kind: "tooLarge" };

/** Where a request keeps its reader: listeners find it through `this`, so that none has to be made for a request. */
const reader = Symbol("body reader");
type ReadRequest = IncomingMessage & { [reader]?: BodyReader<unknown> | undefined };

/** Follows a body that is read whole. Functions and not methods: they are shared by all requests. */
export interface BodyListener<Owner> {
  /** Called for each chunk that is kept. */
  received(owner: Owner, bytes: number): void;
  /** Called once; not called if the body is abandoned or the client leaves first, which the response's close reports. */
  done(owner: Owner, result: BodyResult): void;
}

/**
 * Reads a body whole. The cap is checked against `Content-Length` before a byte is read, and against what really arrives;
 * what comes after `tooLarge` is dropped.
 */
export function readBody<Owner>(
  request: ReadRequest,
  capBytes: number,
  owner: Owner,
  listener: BodyListener<Owner>,
): void {
  const announced = request.headers["content-length"];
  if (announced !== undefined && Number(announced) > capBytes) {
    return listener.done(owner, tooLarge);
  }
  if (announced === "0") return listener.done(owner, none);
  request[reader] = new BodyReader(capBytes, owner, listener);
  request.on("data", onData);
  request.on("end", onEnd);
}

/** Lets go of what has come of a body; what still comes is dropped. */
export function abandonBody(request: ReadRequest): void {
  request[reader] = undefined;
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
  readonly #listener: BodyListener<Owner>;
  /** Nearly every call fits one chunk: it is then handed on as it came, without a copy. */
  #first: Buffer | undefined;
  #rest: Buffer[] | undefined;
  #bytes = 0;

  constructor(capBytes: number, owner: Owner, listener: BodyListener<Owner>) {
    this.#capBytes = capBytes;
    this.#owner = owner;
    this.#listener = listener;
  }

  take(chunk: Buffer): void {
    const had = this.#bytes;
    this.#bytes += chunk.length;
    if (this.#bytes > this.#capBytes) {
      this.#first = undefined;
      this.#rest = undefined;
      if (had <= this.#capBytes) this.#listener.done(this.#owner, tooLarge);
      return;
    }
    if (this.#first === undefined) this.#first = chunk;
    else if (this.#rest === undefined) this.#rest = [this.#first, chunk];
    else this.#rest.push(chunk);
    // Last: the listener may abandon the body.
    this.#listener.received(this.#owner, chunk.length);
  }

  end(): void {
    if (this.#bytes > this.#capBytes) return;
    if (this.#first === undefined) return this.#listener.done(this.#owner, none);
    const body = this.#rest === undefined ? this.#first : Buffer.concat(this.#rest, this.#bytes);
    // Its listeners stay with the request, for as long as the answer takes.
    this.#first = undefined;
    this.#rest = undefined;
    this.#listener.done(this.#owner, { kind: "body", body });
  }
}
