/** Creates a batch of the next charges as CloudEvents 1.0 ("JSON Batch Format"), which OpenMeter and others accept. */
import type { ChargePages } from "./pages.ts";
import type { UsageJson } from "../usage-json.ts";

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

/** Settings that all events of a deployment share. */
export interface EventForm {
  /** Unique together with the id of an event, so that the billing system can drop duplicates. */
  readonly source: string;
  readonly type: string;
  /** Subject of an event: the party that is billed for it. */
  readonly subject: "workspace" | "key";
}

/**
 * Maximum size of the events of a batch in characters. Further events go into the next batch, because sinks limit the
 * size of a request body.
 */
const maxChars = 512 * 1024;

/** Returns a charge as a CloudEvent. */
function eventOf({ id, time, ...charge }: UsageJson, { source, type, subject }: EventForm): object {
  return {
    specversion: "1.0",
    id,
    source,
    type,
    subject: subject === "key" ? charge.key_id : charge.workspace_id,
    time,
    datacontenttype: "application/json",
    data: charge,
  };
}
