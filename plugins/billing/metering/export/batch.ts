/**
 * Creates a CloudEvents batch of the next charges. This is a job of a thread, because thousands of events per second
 * would block the event loop. OpenMeter and others accept this format (CloudEvents 1.0, "JSON Batch Format").
 */
import { transferredResult } from "sluice-gateway/compute";
import { readUsage } from "../read-usage.ts";
import { usageJson } from "../usage-json.ts";
import { eventOf, maxChars, type EventForm } from "./event.ts";

export interface BatchJob {
  readonly dataDir: string;
  /** Id of the charge that was delivered last. Undefined if none was delivered. */
  readonly after: string | undefined;
  /** Maximum number of events. */
  readonly limit: number;
  readonly form: EventForm;
}

/** The first line of the result of a job, before the events. */
export interface BatchHead {
  readonly count: number;
  /** Id of the first charge. */
  readonly first: string;
  /** Position after the last charge. In the journal this is its id. */
  readonly last: string;
  /** Time of the first charge, in milliseconds since 1970. */
  readonly since: number;
  /** True if there are more charges. */
  readonly more: boolean;
}

/** Runs in a thread of the pool. Returns undefined if all charges are delivered. Throws StoreError. */
export default function batchBytes(job: BatchJob): unknown {
  const batch = makeBatch(job);
  if (batch === undefined) return undefined;
  const { events, ...head } = batch;
  return transferredResult(new TextEncoder().encode(`${JSON.stringify(head)}\n${events}`));
}

/** Parses the result of a job. */
export function readBatch(bytes: Uint8Array): BatchHead & { readonly events: Uint8Array } {
  const end = bytes.indexOf(0x0a);
  const head = new TextDecoder().decode(bytes.subarray(0, end));
  // Only `batchBytes` writes this line.
  return { ...(JSON.parse(head) as BatchHead), events: bytes.subarray(end + 1) };
}

/** Returns the batch; `events` is a JSON array. Undefined if all charges are delivered. */
export function makeBatch({
  dataDir,
  after,
  limit,
  form,
}: BatchJob): (BatchHead & { readonly events: string }) | undefined {
  const events: string[] = [];
  let chars = 0;
  let head: BatchHead | undefined;
  for (const row of readUsage(dataDir, { after })) {
    const event = JSON.stringify(eventOf(usageJson(row), form));
    chars += event.length;
    if (head !== undefined && (events.length >= limit || chars > maxChars)) {
      head = { ...head, more: true };
      break;
    }
    events.push(event);
    const { first = row.id, since = row.time } = head ?? {};
    head = { count: events.length, first, last: row.id, since, more: false };
  }
  return head && { ...head, events: `[${events.join(",")}]` };
}
