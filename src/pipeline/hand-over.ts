/** Parts that live as long as some generation uses them: started once, handed from one generation to the next. */

/** What a part asked for while it started, and what that was then. */
export type Needs = ReadonlyMap<string, string>;

const noNeeds: Needs = new Map();

interface Part {
  readonly value: unknown;
  /** What made the part; another maker under the same key (a plugin's new code) is another part. */
  readonly maker: unknown;
  readonly stop: () => unknown;
  readonly needs: Needs;
  readonly stopsLast: boolean;
  users: number;
}

export interface Started<T> {
  readonly value: T;
  readonly stop: () => unknown;
  readonly needs?: Needs;
  /** Stopped after all parts that lack this, in reverse order: those may use it until they have stopped. */
  readonly stopsLast?: boolean;
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

  /**
   * The part under this key: ours, else the previous generation's if what it needs `holds` still, else a new one from
   * `start`.
   */
  async acquire<T>(
    key: string,
    maker: unknown,
    start: () => Promise<Started<T>>,
    holds: (needs: Needs) => boolean = () => true,
  ): Promise<T> {
    // What is stored under a key was made by `start` of the same maker, so it is a T.
    return (this.#take(key, maker, holds) ?? this.#hold(key, maker, await start())).value as T;
  }

  /** The same for parts that start at once. */
  acquireNow<T>(key: string, maker: unknown, start: () => Started<T>): T {
    const taken = this.#take(key, maker, () => true);
    return (taken ?? this.#hold(key, maker, start())).value as T;
  }

  /**
   * Lets go of everything held; stops what nobody else holds. When all of that has ended, rejects with an
   * `AggregateError` of what parts threw instead of stopping.
   */
  async release(): Promise<void> {
    const parts = [...this.#held.values()];
    this.#held.clear();
    for (const part of parts) part.users--;
    const unused = parts.filter((part) => part.users === 0);
    const [last = [], first = []] = [true, false].map((stopsLast) =>
      unused.filter((part) => part.stopsLast === stopsLast),
    );
    const errors = await stopAll(first);
    for (const part of last.toReversed()) errors.push(...(await stopAll([part])));
    if (errors.length === 0) return;
    throw new AggregateError(errors, `did not stop: ${errors.map(String).join("; ")}`);
  }

  #take(key: string, maker: unknown, holds: (needs: Needs) => boolean): Part | undefined {
    const own = this.#held.get(key);
    if (own !== undefined) return own;
    const earlier = this.#previous?.get(key);
    if (earlier === undefined || earlier.maker !== maker || !holds(earlier.needs)) return undefined;
    earlier.users++;
    this.#held.set(key, earlier);
    return earlier;
  }

  #hold(key: string, maker: unknown, started: Started<unknown>): Part {
    const part: Part = { needs: noNeeds, stopsLast: false, ...started, maker, users: 1 };
    this.#held.set(key, part);
    return part;
  }
}

/** Stops parts side by side. Returns what they threw. */
async function stopAll(parts: readonly Part[]): Promise<unknown[]> {
  // Async, so that a part that throws at once does not keep the others from being stopped.
  const ends = await Promise.allSettled(parts.map(async (part) => part.stop()));
  return ends.flatMap((end): unknown[] => (end.status === "rejected" ? [end.reason] : []));
}
