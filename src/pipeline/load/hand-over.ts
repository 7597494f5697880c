/** Parts that live as long as some generation uses them: started once, handed from one generation to the next. */

import type { Closer } from "./closer.ts";

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
   * Releases everything held and stops what no other generation holds. When all of that has ended, or `closer` waits no
   * longer, rejects with an `AggregateError` of what parts threw instead of stopping.
   */
  async release(closer: Pick<Closer, "close">): Promise<void> {
    const parts = [...this.#held];
    this.#held.clear();
    for (const [, part] of parts) part.users--;
    const unused = parts.filter(([, part]) => part.users === 0);
    const stopAll = async (some: typeof unused): Promise<unknown[]> => {
      const ends = await Promise.allSettled(
        some.map(([key, part]) => closer.close(nameOf(key), part.stop)),
      );
      return ends.flatMap((end): unknown[] => (end.status === "rejected" ? [end.reason] : []));
    };
    const errors = await stopAll(unused.filter(([, part]) => !part.stopsLast));
    const last = unused.filter(([, part]) => part.stopsLast);
    for (const one of last.toReversed()) errors.push(...(await stopAll([one])));
    if (errors.length === 0) return;
    throw new AggregateError(
      errors,
      `some parts did not stop cleanly: ${errors.map(String).join("; ")}`,
    );
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

/** A key without its options, which can hold secrets. */
function nameOf(key: string): string {
  return key.split("{", 1).join("").trim();
}
