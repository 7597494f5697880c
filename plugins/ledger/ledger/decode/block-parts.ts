/**
 * Decodes the extrinsics and the events of a block to JSON text: the pallet and method of each call, and its encoded
 * arguments. No values are created: `args`, `raw` and `data` are slices of the hex that the node sent.
 *
 * An extrinsic consists of a compact length, a version byte, a preamble that depends on its kind, and the call, which
 * is always last. The kinds (sp_runtime `generic::UncheckedExtrinsic` and `Preamble`) are: bare, 0x04 and 0x05; signed,
 * 0x84 with address, signature and extensions; general, 0x45 with a version of the extensions (0 is the one in the
 * metadata) and the extensions. The version in the metadata is ignored, because blocks contain version 5 although V14
 * metadata says 4.
 */
import { hexBytes } from "./hex.ts";
import type { Entry, Runtime } from "./runtime.ts";
import { broken, compactResult, readCompact } from "./scale.ts";
import { skip } from "./shape.ts";

const bare4 = 0x04;
const bare5 = 0x05;
const signed4 = 0x84;
const general5 = 0x45;

/** The call of an extrinsic that this runtime cannot have produced. */
export const unknownCall = '"pallet":"unknown","method":"unknown"';

export interface ReadExtrinsic {
  readonly entry: Entry;
  readonly argsAt: number;
  /** Offset of the signer's address. Undefined unless the extrinsic is signed. */
  readonly addressAt: number | undefined;
}

/** Returns undefined if the bytes are not exactly one extrinsic of this runtime. */
export function readExtrinsic(runtime: Runtime, bytes: Uint8Array): ReadExtrinsic | undefined {
  const end = bytes.length;
  if (!readCompact(bytes, 0, end)) return undefined;
  const versionAt = compactResult.next;
  if (compactResult.value !== end - versionAt || versionAt >= end) return undefined;
  const kind = bytes[versionAt];
  const callAt = skipPreamble(runtime, bytes, versionAt + 1, kind);
  if (callAt === broken || callAt + 2 > end) return undefined;
  const entry = runtime.call(bytes[callAt] ?? 0, bytes[callAt + 1] ?? 0);
  const argsAt = callAt + 2;
  if (entry === undefined || skip(entry.shape, bytes, argsAt, end) !== end) return undefined;
  return { entry, argsAt, addressAt: kind === signed4 ? versionAt + 1 : undefined };
}

function skipPreamble(
  { preamble }: Runtime,
  bytes: Uint8Array,
  at: number,
  kind: number | undefined,
): number {
  const end = bytes.length;
  if (kind === bare4 || kind === bare5) return at;
  if (kind === general5) {
    return at < end && bytes[at] === 0 ? skip(preamble.extensions, bytes, at + 1, end) : broken;
  }
  const { address, signature, extensions } = preamble;
  if (kind !== signed4 || address === undefined || signature === undefined) return broken;
  let next = skip(address, bytes, at, end);
  if (next !== broken) next = skip(signature, bytes, next, end);
  return next === broken ? broken : skip(extensions, bytes, next, end);
}

/**
 * Returns a JSON array of `{ index, pallet, method, args, isSigned, raw }`. `list`: the node's JSON array of hex
 * strings, in ASCII. Undefined if it is not an array of plain strings.
 */
export function extrinsicsJson(runtime: Runtime, list: string): string | undefined {
  let json = "[";
  let index = 0;
  let at = afterSpace(list, 0);
  if (list[at] !== "[") return undefined;
  at = afterSpace(list, at + 1);
  if (list[at] === "]") return "[]";
  for (;;) {
    const end = list[at] === '"' ? list.indexOf('"', at + 1) : -1;
    if (end < 0) return undefined;
    const item = itemJson(runtime, list, at + 1, end);
    if (item === undefined) return undefined;
    json += (index === 0 ? '{"index":' : ',{"index":') + index + item;
    index++;
    at = afterSpace(list, end + 1);
    if (list[at] === "]") return `${json}]`;
    if (list[at] !== ",") return undefined;
    at = afterSpace(list, at + 1);
  }
}

/** Returns the part after `"index"` of the object for the hex string in `list[start, end)`. */
function itemJson(runtime: Runtime, list: string, start: number, end: number): string | undefined {
  const digits = start + 2;
  const bytes = list.startsWith("0x", start) ? hexBytes(list, digits, end) : undefined;
  const found = bytes === undefined ? undefined : readExtrinsic(runtime, bytes);
  if (found !== undefined) {
    const signed =
      found.addressAt === undefined ? '","isSigned":false,"raw":"' : '","isSigned":true,"raw":"';
    const args = list.slice(digits + 2 * found.argsAt, end);
    return `${found.entry.json}${args}${signed}${list.slice(start, end)}"}`;
  }
  const raw = list.slice(start, end);
  // Text that is not hex is returned unchanged if it needs no escaping.
  if (bytes === undefined && !/^[\x20-\x5b\x5d-\x7e]*$/.test(raw)) return undefined;
  return `,${unknownCall},"args":"0x","isSigned":false,"raw":"${raw}"}`;
}

function afterSpace(text: string, at: number): number {
  let next = at;
  while (next < text.length && " \n\r\t".includes(text.charAt(next))) next++;
  return next;
}

/**
 * Decodes System.Events to a JSON array of `{ index, phase, pallet, event, data }`. Events do not have a length prefix,
 * so the fields of each event are skipped by their types. One wrong byte makes the rest unreadable, and then the whole
 * answer is undecodable. `hex`: the storage value, `0x…`, in ASCII; undefined if it is absent. Undefined if the bytes are
 * not exactly a list of events of this runtime.
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
