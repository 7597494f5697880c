/**
 * The values of all storage subscriptions of a pool. Subscriptions with different sets of keys share equal values. A
 * value counts for the caller whose subscription was the first to keep it.
 */
import type { Memory, MemoryHold } from "sluice-gateway/plugin";

/** Memory of a value in addition to its characters. */
const valueBytes = 128;

export interface SharedValue {
  readonly key: string;
  /** Hexadecimal text, or null if there is no value. */
  readonly text: string | null;
  readonly keeper: Keeper;
  /** Number of subscriptions that have taken the value. */
  uses: number;
}

/** The memory of the values that one subscription was the first to keep. */
class Keeper {
  readonly #held: MemoryHold;
  isClosed = false;

  constructor(held: MemoryHold) {
    this.#held = held;
  }

  /** Returns false if the caller holds too much. */
  add(bytes: number): boolean {
    const isAccepted = this.#held.resize(this.#held.bytes + bytes);
    if (this.isClosed && this.#held.bytes === 0) this.#held[Symbol.dispose]();
    return isAccepted;
  }
}

/** The values of one subscription. */
export interface StorageValues {
  /** Returns the value, which the subscription must release. Undefined if its caller holds too much memory. */
  take(key: string, text: string | null): SharedValue | undefined;
  release(value: SharedValue): void;
  /** Call it after all values are released. Values that others share still count for the caller. */
  close(): void;
}

export class AllStorageValues {
  readonly #memory: Memory;
  /** The newest value of each key. */
  readonly #newest = new Map<string, SharedValue>();

  constructor(memory: Memory) {
    this.#memory = memory;
  }

  /** Returns the values of one subscription. `caller`: the key that has opened it. */
  of(caller: string): StorageValues {
    const keeper = new Keeper(this.#memory.hold(caller, "subscription"));
    return {
      take: (key, text) => {
        let value = this.#newest.get(key);
        if (value === undefined || value.text !== text) {
          if (!keeper.add(bytesOf(key, text))) return undefined;
          value = { key, text, keeper, uses: 0 };
          this.#newest.set(key, value);
        }
        value.uses++;
        return value;
      },
      release: (value) => this.#release(value),
      close: () => {
        keeper.isClosed = true;
        keeper.add(0);
      },
    };
  }

  #release(value: SharedValue): void {
    if (--value.uses > 0) return;
    value.keeper.add(-bytesOf(value.key, value.text));
    if (this.#newest.get(value.key) === value) this.#newest.delete(value.key);
  }
}

function bytesOf(key: string, text: string | null): number {
  return key.length + (text?.length ?? 0) + valueBytes;
}
