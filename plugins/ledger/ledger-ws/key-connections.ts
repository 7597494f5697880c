/** Counts the open connections of each key. */
export class KeyConnections {
  readonly #maxPerKey: number;
  readonly #open = new Map<string, number>();

  constructor(maxPerKey: number) {
    this.#maxPerKey = maxPerKey;
  }

  /** Counts a connection until the result is disposed of. Undefined if the key has its maximum of connections. */
  enter(keyId: string): Disposable | undefined {
    const open = this.#open.get(keyId) ?? 0;
    if (open >= this.#maxPerKey) return undefined;
    this.#open.set(keyId, open + 1);
    return { [Symbol.dispose]: () => this.#leave(keyId) };
  }

  #leave(keyId: string): void {
    const open = (this.#open.get(keyId) ?? 1) - 1;
    if (open === 0) this.#open.delete(keyId);
    else this.#open.set(keyId, open);
  }
}
