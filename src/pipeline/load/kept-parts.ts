/** The parts that services keep over their own restart: `ServiceContext.keep`. */
import type { ServiceContext } from "../../plugin.ts";

interface Part {
  readonly value: unknown;
  readonly close: () => unknown;
  /** Number of running instances of the service that hold the part. */
  holders: number;
}

export interface PartHolder extends Pick<ServiceContext, "keep"> {
  /**
   * Releases all parts of this instance, the last opened first, and closes those that no other instance holds. Rejects
   * with an AggregateError of what their `close` threw.
   */
  release(): Promise<void>;
}

export class KeptParts {
  /** By service. A service whose code was reloaded is another service. */
  readonly #parts = new WeakMap<object, Map<string, Part>>();

  /** Returns the holder of one instance of a service. */
  holder(service: object): PartHolder {
    const parts = this.#parts.get(service) ?? new Map<string, Part>();
    this.#parts.set(service, parts);
    const held = new Set<string>();
    return {
      keep<T>(key: string, open: () => T, close: (part: T) => unknown): T {
        const known = parts.get(key);
        if (known !== undefined) {
          if (!held.has(key)) known.holders++;
          held.add(key);
          // All parts of a key are of the same type: see `ServiceContext.keep`.
          return known.value as T;
        }
        const value = open();
        parts.set(key, { value, close: () => close(value), holders: 1 });
        held.add(key);
        return value;
      },
      async release() {
        const errors: unknown[] = [];
        for (const key of [...held].toReversed()) {
          held.delete(key);
          const part = parts.get(key);
          if (part === undefined || --part.holders > 0) continue;
          parts.delete(key);
          try {
            await part.close();
          } catch (error) {
            errors.push(error);
          }
        }
        if (errors.length > 0) throw new AggregateError(errors, errors.map(String).join("; "));
      },
    };
  }
}
