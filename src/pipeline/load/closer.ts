import { late, withinLimit } from "../../base/time-limit.ts";
import type { Clock, Log } from "../../plugin.ts";

/** Longer than the slowest part that ships with Sluice: `trace` waits 3 s for its collector. */
export const closeMs = 4_000;
/** The limit once something has not ended in time, because a stop must end the process. */
const shortLimitMs = 1_000;

export class Closer {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly late: string[] = [];
  #limitMs = closeMs;

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Called when something else has not ended in time. */
  shortenLimit(): void {
    this.#limitMs = shortLimitMs;
  }

  /** Resolves when `end` has ended, or logs `part` and resolves after the limit. Rejects with what `end` throws. */
  async close(part: string, end: () => unknown): Promise<void> {
    const ended = await withinLimit(Promise.try(end), this.#limitMs, this.#clock);
    if (ended !== late) return;
    this.shortenLimit();
    this.late.push(part);
    this.#log.error({ part }, "a part did not end in time: the gateway stops without it");
  }
}

/** Everything that a gateway has opened, by name. Disposing it closes the parts in reverse order. */
export class ClosingStack extends AsyncDisposableStack {
  readonly closer: Closer;

  constructor(closer: Closer) {
    super();
    this.closer = closer;
  }

  add(part: string, end: () => unknown): void {
    this.defer(() => this.closer.close(part, end));
  }
}
