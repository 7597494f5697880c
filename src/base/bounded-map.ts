/** A map with a maximum size, which drops the least recently used entry. Browsers run this file, too. */

export class BoundedMap<K, V> {
  /** The least recently used entry is the first one. */
  readonly #entries = new Map<K, V>();
  readonly #maxSize: number;
  readonly #dropped: ((value: V) => void) | undefined;

  /** `dropped`: called with each value that leaves the map because the map is full. It must not throw. */
  constructor(maxSize: number, dropped?: (value: V) => void) {
    this.#maxSize = maxSize;
    this.#dropped = dropped;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  /** Returns the value of `key` without a change of the order, which is cheaper than `get`. */
  peek(key: K): V | undefined {
    return this.#entries.get(key);
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#maxSize) this.#dropOldest();
    this.#entries.set(key, value);
  }

  delete(key: K): void {
    this.#entries.delete(key);
  }

  /** Removes all entries, without calling `dropped`. */
  clear(): void {
    this.#entries.clear();
  }

  /** All entries, the least recently used one first. */
  entries(): IterableIterator<[K, V]> {
    return this.#entries.entries();
  }

  values(): IterableIterator<V> {
    return this.#entries.values();
  }

  #dropOldest(): void {
    for (const [key, value] of this.#entries) {
      this.#entries.delete(key);
      this.#dropped?.(value);
      return;
    }
  }
}
