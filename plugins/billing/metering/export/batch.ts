/** Creates a CloudEvents batch of the next charges. */
import { eventOf, maxChars, type EventForm } from "./event.ts";
import type { ChargePages } from "./pages.ts";

export interface BatchRange {
  /** Position of the delivery. Undefined if nothing was delivered. */
  readonly after: string | undefined;
  /** Maximum number of events. */
  readonly limit: number;
}

export interface BatchHead {
  readonly count: number;
  /** Id of the first charge. */
  readonly first: string;
  /** Position after the last charge. */
  readonly last: string;
  /** Time of the oldest charge, in milliseconds since 1970. */
  readonly since: number;
  /** True if there are more charges. */
  readonly more: boolean;
}

/**
 * Returns the next batch; `events` is a JSON array. Undefined if all charges are delivered. Rejects if the
 * charges cannot be read.
 */
export async function makeBatch(
  pages: ChargePages,
  range: BatchRange,
  form: EventForm,
): Promise<(BatchHead & { readonly events: string }) | undefined> {
  // Only the first page is needed.
  for await (const { charges, positionAfter, hasMore } of pages(range)) {
    const events: string[] = [];
    let chars = 0;
    for (const { charge } of charges.slice(0, range.limit)) {
      const event = JSON.stringify(eventOf(charge, form));
      chars += event.length;
      if (events.length > 0 && chars > maxChars) break;
      events.push(event);
    }
    const count = events.length;
    const taken = charges.slice(0, count);
    const [first] = taken;
    if (first === undefined) return undefined;
    return {
      count,
      first: first.charge.id,
      last: positionAfter(count),
      since: Math.min(...taken.map(({ charge }) => Date.parse(charge.time))),
      more: hasMore || count < charges.length,
      events: `[${events.join(",")}]`,
    };
  }
  return undefined;
}
