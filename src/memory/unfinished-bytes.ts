/**
 * Counts the memory of requests that have not arrived completely. No plugin limits them yet, so without a limit, a
 * client could fill the memory with requests that it never completes.
 */

export interface UnfinishedLimits {
  readonly maxBytes: number;
  /** Maximum bytes of one owner, such as an API key. */
  readonly maxBytesPerOwner: number;
}

export type ExceededLimit = "owner" | "total";

/** The memory of one request. Dispose when the request is complete or abandoned. */
export interface HeldBytes extends Disposable {
  readonly bytes: number;
  /** Sets the memory of the request. Returns the limit that this would exceed; then nothing changes. */
  resize(bytes: number): ExceededLimit | undefined;
}

interface Owner {
  readonly name: string;
  bytes: number;
  requests: number;
}

export class UnfinishedBytes {
  readonly #owners = new Map<string, Owner>();
  readonly #changed: (bytes: number) => void;
  #total = 0;

  constructor(changed: (bytes: number) => void = () => {}) {
    this.#changed = changed;
  }

  requestsOf(owner: string): number {
    return this.#owners.get(owner)?.requests ?? 0;
  }

  /** Starts to count a request, with 0 bytes. Limits may differ between configurations. */
  hold(name: string, limits: UnfinishedLimits): HeldBytes {
    const owner = this.#owners.get(name) ?? { name, bytes: 0, requests: 0 };
    this.#owners.set(name, owner);
    owner.requests++;
    return new Held(owner, limits, this);
  }

  /** Called by a request, like `removed`. */
  add(owner: Owner, more: number, limits: UnfinishedLimits): ExceededLimit | undefined {
    if (more > 0 && owner.bytes + more > limits.maxBytesPerOwner) return "owner";
    if (more > 0 && this.#total + more > limits.maxBytes) return "total";
    owner.bytes += more;
    this.#total += more;
    if (more !== 0) this.#changed(this.#total);
    return undefined;
  }

  removed(owner: Owner): void {
    if (--owner.requests === 0) this.#owners.delete(owner.name);
  }
}

class Held implements HeldBytes {
  readonly #owner: Owner;
  readonly #limits: UnfinishedLimits;
  readonly #all: UnfinishedBytes;
  #isDisposed = false;
  bytes = 0;

  constructor(owner: Owner, limits: UnfinishedLimits, all: UnfinishedBytes) {
    this.#owner = owner;
    this.#limits = limits;
    this.#all = all;
  }

  resize(bytes: number): ExceededLimit | undefined {
    const exceeded = this.#all.add(this.#owner, bytes - this.bytes, this.#limits);
    if (exceeded === undefined) this.bytes = bytes;
    return exceeded;
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.resize(0);
    this.#all.removed(this.#owner);
  }
}
