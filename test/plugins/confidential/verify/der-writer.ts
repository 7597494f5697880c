/** Writes DER by hand, so that tests can also make certificates and lists that the library does not write. */
import { joinBytes, type Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";

export const derTags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  enumerated: 0x0a,
  ia5String: 0x16,
  utcTime: 0x17,
  sequence: 0x30,
  set: 0x31,
} as const;

export function writeDer(tag: number, ...parts: readonly Uint8Array[]): Bytes {
  const content = joinBytes(...parts);
  return joinBytes(Uint8Array.of(tag), writeLength(content.length), content);
}

function writeLength(length: number): Uint8Array {
  if (length < 0x80) return Uint8Array.of(length);
  if (length < 0x100) return Uint8Array.of(0x81, length);
  return length < 0x10000
    ? Uint8Array.of(0x82, length >> 8, length & 0xff)
    : Uint8Array.of(0x83, length >> 16, (length >> 8) & 0xff, length & 0xff);
}

export function sequence(...parts: readonly Uint8Array[]): Bytes {
  return writeDer(derTags.sequence, ...parts);
}

/** `magnitude`: a non-negative number, big endian. */
export function integer(magnitude: Uint8Array): Bytes {
  let start = 0;
  while (start < magnitude.length - 1 && magnitude[start] === 0) start++;
  const digits = magnitude.subarray(start);
  const sign = (digits[0] ?? 0) >= 0x80 ? Uint8Array.of(0) : new Uint8Array(0);
  return writeDer(derTags.integer, sign, digits.length === 0 ? Uint8Array.of(0) : digits);
}

/** `value`: an integer below 2^16. */
export function smallInteger(value: number): Bytes {
  return integer(Uint8Array.of(value >> 8, value & 0xff));
}

/** `text`: the identifier in dotted decimal. */
export function objectId(text: string): Bytes {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const octets = [40 * first + second, ...rest].flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) {
      groups.unshift((left & 0x7f) | 0x80);
    }
    return groups;
  });
  return writeDer(derTags.objectId, Uint8Array.from(octets));
}

export function octetString(bytes: Uint8Array): Bytes {
  return writeDer(derTags.octetString, bytes);
}

/** Writes a bit string of whole octets. */
export function bitString(bytes: Uint8Array): Bytes {
  return writeDer(derTags.bitString, Uint8Array.of(0), bytes);
}

/** Writes a UTCTime. `time`: milliseconds since 1970, between the years 1950 and 2049. */
export function utcTime(time: number): Bytes {
  const digits = new Date(time).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return writeDer(derTags.utcTime, new TextEncoder().encode(digits.slice(2)));
}
