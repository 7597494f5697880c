/**
 * Decodes the extrinsics of a block into finished JSON text: which call of which pallet, and where its arguments are.
 * No value is made: `args` and `raw` are stretches of the hex that the node sent.
 *
 * An extrinsic is a compact length, a version byte, what its kind puts around the call, and the call, which is always
 * its tail. The kinds (sp_runtime `generic::UncheckedExtrinsic` and `Preamble`): bare 0x04 and 0x05; signed 0x84 with
 * address, signature and extensions; general 0x45 with a version of the extensions (0 is the one in the metadata) and
 * the extensions. Blocks hold version 5 while V14 metadata says 4, so what metadata says about it is not looked at.
 */
import { hexBytes } from "./hex.ts";
import type { Entry, Runtime } from "./runtime.ts";
import { broken, compact, readCompact } from "./scale.ts";
import { skip } from "./shape.ts";

const bare4 = 0x04;
const bare5 = 0x05;
const signed4 = 0x84;
const general5 = 0x45;

/** How an extrinsic that this runtime cannot have made is told. */
export const unknownCall = '"pallet":"unknown","method":"unknown"';

export interface ReadExtrinsic {
  readonly entry: Entry;
  /** Offset of the arguments. */
  readonly argsAt: number;
  /** Offset of the signer's address, of a signed one. */
  readonly addressAt: number | undefined;
}

/** Undefined: not an extrinsic of this runtime from its first byte to its last. */
export function readExtrinsic(runtime: Runtime, bytes: Uint8Array): ReadExtrinsic | undefined {
  const end = bytes.length;
  if (!readCompact(bytes, 0, end)) return undefined;
  const versionAt = compact.next;
  if (compact.value !== end - versionAt || versionAt >= end) return undefined;
  const kind = bytes[versionAt];
  const callAt = skipPreamble(runtime, bytes, versionAt + 1, kind);
  if (callAt === broken || callAt + 2 > end) return undefined;
  const entry = runtime.call(bytes[callAt] ?? 0, bytes[callAt + 1] ?? 0);
  const argsAt = callAt + 2;
  if (entry === undefined || skip(entry.shape, bytes, argsAt, end) !== end) return undefined;
  return { entry, argsAt, addressAt: kind === signed4 ? versionAt + 1 : undefined };
}

/** Offset of the call, or `broken`. */
function skipPreamble(
  { around }: Runtime,
  bytes: Uint8Array,
  at: number,
  kind: number | undefined,
): number {
  const end = bytes.length;
  if (kind === bare4 || kind === bare5) return at;
  if (kind === general5) {
    return at < end && bytes[at] === 0 ? skip(around.extensions, bytes, at + 1, end) : broken;
  }
  const { address, signature, extensions } = around;
  if (kind !== signed4 || address === undefined || signature === undefined) return broken;
  let next = skip(address, bytes, at, end);
  if (next !== broken) next = skip(signature, bytes, next, end);
  return next === broken ? broken : skip(extensions, bytes, next, end);
}

/**
 * `list`: the JSON array of hex strings as the node sent it, one character a byte. An array of
 * `{ index, pallet, method, args, isSigned, raw }`; undefined when it is not an array of plain strings.
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

/** The object of the hex string in `list[start, end)`, from behind its index. */
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
  // What is no hex goes back as it came, if nothing in it needs a second look.
  if (bytes === undefined && !/^[\x20-\x5b\x5d-\x7e]*$/.test(raw)) return undefined;
  return `,${unknownCall},"args":"0x","isSigned":false,"raw":"${raw}"}`;
}

function afterSpace(text: string, at: number): number {
  let next = at;
  while (next < text.length && " \n\r\t".includes(text.charAt(next))) next++;
  return next;
}
