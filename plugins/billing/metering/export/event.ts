/** Charges as CloudEvents. OpenMeter and others accept this format (CloudEvents 1.0, "JSON Batch Format"). */
import type { UsageJson } from "../usage-json.ts";

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
export const maxChars = 512 * 1024;

/** Returns a charge as a CloudEvent. */
export function eventOf(
  { id, time, ...charge }: UsageJson,
  { source, type, subject }: EventForm,
): object {
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
