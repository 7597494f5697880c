/**
 * Creates a batch of the next charges as CloudEvents 1.0 ("JSON Batch Format"), which OpenMeter and others accept. For
 * the data folder, this is a job of a thread, because thousands of events per second would block the event loop.
 */
import { type UsageJson, usageJson } from "../charge-text.ts";
import { readUsage, type UsageRange } from "../read-usage.ts";

export interface BatchRange {
  /** Position of the delivery. Undefined if nothing was delivered. */
  readonly after: string | undefined;
  readonly limit: number;
}

export interface BatchHead {
  readonly count: number;
  readonly first: string;
  /** Position after the last charge. */
  readonly last: string;
  /** Time of the oldest charge, in milliseconds since 1970. */
  readonly since: number;
  readonly more: boolean;
}

/** `events` is a JSON array. Undefined if all charges are delivered. Rejects if the charges cannot be read. */
export async function makeBatch(
  pages: ChargePages,
  range: BatchRange,
  form: EventForm,
): Promise<(BatchHead & { readonly events: string }) | undefined> {
  // Only the first page is needed.
  for await (const { charges, positionAfter, hasMore } of pages(range)) {
    const events: string[] = [];
    let chars = 0;
    for (const charge of charges.slice(0, range.limit)) {
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
      first: first.id,
      last: positionAfter(count),
      since: Math.min(...taken.map(({ time }) => Date.parse(time))),
      more: hasMore || count < charges.length,
      events: `[${events.join(",")}]`,
    };
  }
  return undefined;
}

export interface EventForm {
  /** Unique together with the id of an event, so that the billing system can drop duplicates. */
  readonly source: string;
  readonly type: string;
  /** The party that is billed for an event. */
  readonly subject: "workspace" | "key";
}

/** Maximum characters of the events. Further ones go into the next batch, because sinks limit the size of a body. */
const maxChars = 512 * 1024;

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

export interface ChargePage {
  readonly charges: readonly UsageJson[];
  /** Returns the position after the first `count` of these charges. A later read can continue there. */
  readonly positionAfter: (count: number) => string;
  /** True if there may be more charges after these. */
  readonly hasMore: boolean;
}

export interface PageRange extends UsageRange {
  /** A position. Only charges after it are read. */
  readonly after?: string | undefined;
  /** Number of charges in a page. A page may have a few more. */
  readonly limit: number;
}

/**
 * Yields the charges in a range that are settled at the call, in the order of their commits per gateway. Fails with
 * StoreError or DatabaseFailure if they cannot be read, and if the position is invalid.
 */
export type ChargePages = (range: PageRange) => Iterable<ChargePage> | AsyncIterable<ChargePage>;

export function folderPages(dataDir: string): ChargePages {
  return function* pages({ limit, ...range }) {
    let charges: UsageJson[] = [];
    for (const row of readUsage(dataDir, range)) {
      if (charges.length === limit) {
        yield pageOf(charges, true);
        charges = [];
      }
      charges.push(usageJson(row));
    }
    if (charges.length > 0) yield pageOf(charges, false);
  };
}

function pageOf(charges: readonly UsageJson[], hasMore: boolean): ChargePage {
  return { charges, hasMore, positionAfter: (count) => charges[count - 1]?.id ?? "" };
}

export interface BatchJob extends BatchRange {
  readonly dataDir: string;
  readonly form: EventForm;
}

/** Returns undefined if all charges are delivered. Rejects with StoreError. */
export default async function batchBytes({
  dataDir,
  form,
  ...range
}: BatchJob): Promise<Uint8Array | undefined> {
  const batch = await makeBatch(folderPages(dataDir), range, form);
  if (batch === undefined) return undefined;
  const { events, ...head } = batch;
  return new TextEncoder().encode(`${JSON.stringify(head)}\n${events}`);
}

export function readBatch(bytes: Uint8Array): BatchHead & { readonly events: Uint8Array } {
  const end = bytes.indexOf(0x0a);
  const head = new TextDecoder().decode(bytes.subarray(0, end));
  // Only `batchBytes` writes this line.
  return { ...(JSON.parse(head) as BatchHead), events: bytes.subarray(end + 1) };
}
