/** The parts that services keep over their own restart: `ServiceContext.keep`. */
import type { Service, ServiceContext } from "../../plugin.ts";
import type { Closer } from "./closer.ts";

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

type Owner = Pick<Service, "name">;

export class KeptParts {
  /** By service. A service whose code was reloaded is another service. */
  readonly #parts = new Map<Owner, Map<string, Part>>();
  /** Releases that have not ended. */
  readonly #releases = new Set<Promise<void>>();

  /** Returns the holder of one instance of a service. */
  holder(service: Owner): PartHolder {
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
      release: async () => {
        const unused: Part[] = [];
        for (const key of [...held].toReversed()) {
          held.delete(key);
          const part = parts.get(key);
          if (part === undefined || --part.holders > 0) continue;
          parts.delete(key);
          unused.push(part);
        }
        const release = closeParts(unused);
        this.#releases.add(release);
        try {
          await release;
        } finally {
          this.#releases.delete(release);
        }
      },
    };
  }

  /**
   * Closes every part that is still open, the last opened first, and waits for those that are being closed. The
   * gateway calls it when it stops, because an exchange of an old generation that does not end holds its services.
   */
  async close(closer: Closer): Promise<void> {
    await closer.close("services", () => Promise.allSettled(this.#releases));
    for (const [{ name }, parts] of [...this.#parts].toReversed()) {
      const open = [...parts.values()].toReversed();
      parts.clear();
      await closer.close(`service ${name}`, () => closeParts(open));
    }
  }
}

async function closeParts(parts: readonly Part[]): Promise<void> {
  const errors: unknown[] = [];
  for (const part of parts) {
    try {
      await part.close();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, errors.map(String).join("; "));
}
