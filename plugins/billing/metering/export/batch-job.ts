/**
 * Creates a batch of charges of the data folder. This is a job of a thread, because thousands of events per second would
 * block the event loop.
 */
import { transferredResult } from "sluice-gateway/internal/compute";
import { makeBatch, type BatchHead, type BatchRange, type EventForm } from "./batch.ts";
import { folderPages } from "./pages.ts";

export interface BatchJob extends BatchRange {
  readonly dataDir: string;
  readonly form: EventForm;
}

/** Returns undefined if all charges are delivered. Rejects with StoreError. */
export default async function batchBytes({ dataDir, form, ...range }: BatchJob): Promise<unknown> {
  const batch = await makeBatch(folderPages(dataDir), range, form);
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
