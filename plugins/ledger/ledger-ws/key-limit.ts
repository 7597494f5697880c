/** Limits how many things of one kind each key has open at the same time, on all its connections to this gateway. */
export class KeyLimit {
  readonly #maxPerKey: number;
  readonly #open = new Map<string, number>();

  constructor(maxPerKey: number) {
    this.#maxPerKey = maxPerKey;
  }

  of(keyId: string): Quota {
    return {
      take: (wanted = 1) => {
        const open = this.#open.get(keyId) ?? 0;
        const taken = Math.max(0, Math.min(wanted, this.#maxPerKey - open));
        if (taken > 0) this.#open.set(keyId, open + taken);
        return taken;
      },
      release: (count = 1) => {
        const open = (this.#open.get(keyId) ?? 0) - count;
        if (open > 0) this.#open.set(keyId, open);
        else this.#open.delete(keyId);
      },
    };
  }
}

/** Like `KeyLimit`, but equal things count once. */
export class DistinctKeyLimit {
  readonly #limit: KeyLimit;
  /** Number of times that each thing is open, by key and thing. */
  readonly #open = new Map<string, number>();

  constructor(maxPerKey: number) {
    this.#limit = new KeyLimit(maxPerKey);
  }

  /** `thing`: text that is the same for equal things. */
  of(keyId: string, thing: string): Quota {
    const name = `${keyId} ${thing}`;
    return {
      take: (wanted = 1) => {
        const open = this.#open.get(name) ?? 0;
        if (open === 0 && this.#limit.of(keyId).take() === 0) return 0;
        this.#open.set(name, open + wanted);
        return wanted;
      },
      release: (count = 1) => {
        const open = (this.#open.get(name) ?? 0) - count;
        if (open > 0) {
          this.#open.set(name, open);
        } else if (this.#open.delete(name)) this.#limit.of(keyId).release();
      },
    };
  }
}

export interface Quota {
  /** Takes up to `wanted` units (default 1). Returns the number of units taken, which is 0 if none is left. */
  take(wanted?: number): number;
  release(count?: number): void;
}
