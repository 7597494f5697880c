/** The parts that services keep over their own restart: `ServiceContext.keep`. */
import type { Service, ServiceContext } from "../../plugin.ts";
import type { Closer } from "./closer.ts";

class Part {
  readonly name: string;
  readonly value: unknown;
  holders = 1;
  readonly #close: () => unknown;
  #closed: Promise<unknown> | undefined;

  constructor(name: string, value: unknown, close: () => unknown) {
    this.name = name;
    this.value = value;
    this.#close = close;
  }

  /** Closes the part once. Every call returns the same promise, which rejects with what `close` of the part throws. */
  close(): Promise<unknown> {
    return (this.#closed ??= Promise.try(this.#close));
  }
}

export interface PartHolder extends Pick<ServiceContext, "keep"> {
  /** Closes the parts that no other instance holds, the last opened first. Rejects with an AggregateError. */
  release(): Promise<void>;
}

type Owner = Pick<Service, "name">;

export class KeptParts {
  /** The parts that can be held, by service. A service whose code was reloaded is another service. */
  readonly #parts = new Map<Owner, Map<string, Part>>();
  /** Every part that is not closed, including those that a release will close, in the order in which they were opened. */
  readonly #unclosed = new Set<Part>();

  holder(service: Owner): PartHolder {
    const parts = this.#parts.get(service) ?? new Map<string, Part>();
    this.#parts.set(service, parts);
    const held = new Set<string>();
    return {
      keep: <T>(key: string, open: () => T, close: (part: T) => unknown): T => {
        const known = parts.get(key);
        if (known !== undefined) {
          if (!held.has(key)) known.holders++;
          held.add(key);
          // All parts of a key are of the same type: see `ServiceContext.keep`.
          return known.value as T;
        }
        const value = open();
        const part = new Part(`service ${service.name}: ${key}`, value, () => close(value));
        parts.set(key, part);
        this.#unclosed.add(part);
        held.add(key);
        return value;
      },
      release: () => {
        const unused: Part[] = [];
        for (const key of [...held].toReversed()) {
          held.delete(key);
          const part = parts.get(key);
          if (part === undefined || --part.holders > 0) continue;
          parts.delete(key);
          unused.push(part);
        }
        return this.#closeEach(unused, (part) => part.close());
      },
    };
  }

  /**
   * Called when the gateway stops, because exchanges that never end hold their services, and `release` waits without a
   * limit. `closer` limits each part. Rejects with an AggregateError.
   */
  async close(closer: Closer): Promise<void> {
    for (const parts of this.#parts.values()) parts.clear();
    await this.#closeEach([...this.#unclosed].toReversed(), (part) =>
      closer.close(part.name, () => part.close()),
    );
  }

  async #closeEach(parts: readonly Part[], close: (part: Part) => Promise<unknown>): Promise<void> {
    const errors: unknown[] = [];
    for (const part of parts) {
      try {
        await close(part);
      } catch (error) {
        errors.push(error);
      }
      this.#unclosed.delete(part);
    }
    if (errors.length > 0) throw new AggregateError(errors, errors.map(String).join("; "));
  }
}
