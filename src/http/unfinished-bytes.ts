/**
 * Accounts for the memory of requests that have not arrived completely. They are not charged yet, so without a limit, a
 * client could fill the memory with requests that it never completes.
 */

export interface UnfinishedLimits {
  /** Maximum bytes of all owners together. */
  readonly maxBytes: number;
  /** Maximum bytes of one owner, such as an API key. */
  readonly maxBytesPerOwner: number;
}

/** The memory of one request. Dispose when the request is complete or abandoned. */
export interface HeldBytes extends Disposable {
  /** Sets the memory of the request. Returns false, and changes nothing, if that exceeds a limit. */
  resize(bytes: number): boolean;
}

export class UnfinishedBytes {
  readonly #ofOwner = new Map<string, number>();
  readonly #changed: (bytes: number) => void;
  #all = 0;

  /** `changed`: called with the new total, for a gauge. */
  constructor(changed: (bytes: number) => void = () => {}) {
    this.#changed = changed;
  }

  /** Starts to account for a request, with 0 bytes. Limits may differ between configurations. */
  hold(owner: string, limits: UnfinishedLimits): HeldBytes {
    let held = 0;
    const resize = (bytes: number): boolean => {
      const more = bytes - held;
      if (more === 0) return true;
      if (more > 0 && !this.#fits(owner, more, limits)) return false;
      held = bytes;
      this.#add(owner, more);
      return true;
    };
    return { resize, [Symbol.dispose]: () => void resize(0) };
  }

  #fits(owner: string, more: number, { maxBytes, maxBytesPerOwner }: UnfinishedLimits): boolean {
    const ofOwner = this.#ofOwner.get(owner) ?? 0;
    return this.#all + more <= maxBytes && ofOwner + more <= maxBytesPerOwner;
  }

  #add(owner: string, more: number): void {
    const ofOwner = (this.#ofOwner.get(owner) ?? 0) + more;
    if (ofOwner === 0) this.#ofOwner.delete(owner);
    else this.#ofOwner.set(owner, ofOwner);
    this.#all += more;
    this.#changed(this.#all);
  }
}
