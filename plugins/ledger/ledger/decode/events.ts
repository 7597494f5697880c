/**
 * Decodes System.Events to JSON text. Events do not have a length prefix, so the fields of each event are skipped by
 * their types. One wrong byte makes the rest unreadable, and then the whole answer is undecodable.
 */
import { hexBytes } from "./hex.ts";
import type { Runtime } from "./runtime.ts";
import { broken, compactResult, readCompact } from "./scale.ts";
import { skip } from "./shape.ts";

/**
 * Returns a JSON array of `{ index, phase, pallet, event, data }`. `hex`: the storage value, `0x…`, in ASCII; undefined
 * if it is absent. Undefined if the bytes are not exactly a list of events of this runtime.
 */
export function eventsJson(runtime: Runtime, hex: string | undefined): string | undefined {
  if (hex === undefined) return "[]";
  const { events } = runtime;
  const bytes = hex.startsWith("0x") ? hexBytes(hex, 2, hex.length) : undefined;
  if (events === undefined || bytes === undefined) return undefined;
  const end = bytes.length;
  if (!readCompact(bytes, 0, end)) return undefined;
  const count = compactResult.value;
  let at = compactResult.next;
  let json = "[";
  for (let index = 0; index < count; index++) {
    const phase = at < end ? events.phases[bytes[at] ?? 0] : undefined;
    const eventAt = at + (phase?.index === true ? 5 : 1);
    if (phase === undefined || eventAt + 2 > end) return undefined;
    const entry = events.entries[bytes[eventAt] ?? 0]?.[bytes[eventAt + 1] ?? 0];
    if (entry === undefined) return undefined;
    const dataAt = eventAt + 2;
    const dataEnd = skip(entry.shape, bytes, dataAt, end);
    if (dataEnd === broken) return undefined;
    json += `${index === 0 ? "" : ","}{"index":${index}${phase.json}`;
    if (phase.index) json += `(${bytes.readUInt32LE(at + 1)})`;
    json += `"${entry.json}${hex.slice(2 + 2 * dataAt, 2 + 2 * dataEnd)}"}`;
    at = skip(events.topics, bytes, dataEnd, end);
    if (at === broken) return undefined;
  }
  return at === end ? `${json}]` : undefined;
}
