/**
 * The next charges for billing, as a CloudEvents batch: a job of a thread, because thousands of events a second are
 * work that would hold up the event loop. OpenMeter and others take this form (CloudEvents 1.0, "JSON Batch Format").
 */
import { movedOut } from "../../../../src/compute/pool.ts";
import { readUsage, type UsageRow } from "../read-usage.ts";
import { usageJson } from "../usage-json.ts";

export interface BatchJob {
  readonly dataDir: string;
  /** The id of the charge that was delivered last; undefined: none was. */
  readonly after: string | undefined;
  /** The most events. */
  readonly limit: number;
  readonly form: EventForm;
}

/** What the events of a deployment have in common. */
export interface EventForm {
  /** With an event's id it is unique: whoever bills drops what comes again. */
  readonly source: string;
  readonly type: string;
  /** Whom an event is counted for. */
  readonly subject: "workspace" | "key";
}

/** What stands in a job's answer before the events. */
export interface BatchHead {
  readonly count: number;
  /** Ids of the first and the last charge. */
  readonly first: string;
  readonly last: string;
  /** Milliseconds since 1970: when the first one was made. */
  readonly since: number;
  /** There may be further ones already. */
  readonly more: boolean;
}

/** Events beyond this size go with the next batch: sinks limit a request's body, too. */
const maxChars = 512 * 1024;

/** Runs in a thread of the pool. Undefined: nothing is left to deliver. Throws StoreError. */
export default function batchBytes(job: BatchJob): unknown {
  const batch = makeBatch(job);
  if (batch === undefined) return undefined;
  const { events, ...head } = batch;
  return movedOut(new TextEncoder().encode(`${JSON.stringify(head)}\n${events}`));
}

/** Takes apart what a job has answered. */
export function readBatch(bytes: Uint8Array): BatchHead & { readonly events: Uint8Array } {
  const end = bytes.indexOf(0x0a);
  const head = new TextDecoder().decode(bytes.subarray(0, end));
  // Written by `batchBytes` alone.
  return { ...(JSON.parse(head) as BatchHead), events: bytes.subarray(end + 1) };
}

/** `events`: a JSON array. */
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
    const event = JSON.stringify(eventOf(row, form));
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

/** A charge as a CloudEvent; its draws tell what of it is owed beyond what the plan includes. */
function eventOf(row: UsageRow, { source, type, subject }: EventForm): object {
  const { id, time, ...charge } = usageJson(row);
  return {
    specversion: "1.0",
    id,
    source,
    type,
    subject: subject === "key" ? row.keyId : row.workspaceId,
    time,
    datacontenttype: "application/json",
    data: {
      ...charge,
      included_cu_milli: row.includedMilliCu,
      purchased_cu_milli: row.purchasedMilliCu,
      overage_cu_milli: row.overageMilliCu,
    },
  };
}
