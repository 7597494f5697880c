/** Parts that live as long as some generation uses them: started once, handed from one generation to the next. */

interface Part {
  readonly value: unknown;
  /** What made the part; another maker under the same key (a plugin's new code) is another part. */
  readonly maker: unknown;
  readonly stop: () => unknown;
  users: number;
}

interface Started<T> {
  readonly value: T;
  readonly stop: () => unknown;
}

export class HandOver {
  readonly #held = new Map<string, Part>();
  #previous: ReadonlyMap<string, Part> | undefined;

  constructor(previous: HandOver | undefined) {
    this.#previous = previous === undefined ? undefined : previous.#held;
  }

  /** Nothing more will be taken over: forgets the previous generation, so that it can be collected. */
  complete(): void {
    this.#previous = undefined;
  }

  /** The part under this key: ours, else the previous generation's, else a new one from `start`. */
  async acquire<T>(key: string, maker: unknown, start: () => Promise<Started<T>>): Promise<T> {
    // What is stored under a key was made by `start` of the same maker, so it is a T.
    return (this.#take(key, maker) ?? this.#hold(key, maker, await start())).value as T;
  }

  /** The same for parts that start at once. */
  acquireNow<T>(key: string, maker: unknown, start: () => Started<T>): T {
    return (this.#take(key, maker) ?? this.#hold(key, maker, start())).value as T;
  }

  /** Lets go of everything held; stops what nobody else holds. */
  async release(): Promise<void> {
    const parts = [...this.#held.values()];
    this.#held.clear();
    for (const part of parts) part.users--;
    await Promise.all(parts.filter((part) => part.users === 0).map((part) => part.stop()));
  }

  #take(key: string, maker: unknown): Part | undefined {
    const own = this.#held.get(key);
    if (own !== undefined) return own;
    const earlier = this.#previous?.get(key);
    if (earlier === undefined || earlier.maker !== maker) return undefined;
    earlier.users++;
    this.#held.set(key, earlier);
    return earlier;
  }

  #hold(key: string, maker: unknown, started: Started<unknown>): Part {
    const part: Part = { ...started, maker, users: 1 };
    this.#held.set(key, part);
    return part;
  }
}
