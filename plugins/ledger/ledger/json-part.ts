/** Copies parts of a node's answer into a result without parsing them and writing them again. */
import { findMember, malformed, skipSpace, skipValue } from "sluice-gateway/internal/http";
import { spaceEnd, stringEnd, valueEnd } from "sluice-gateway/internal/toolkit";
import type { JsonBody } from "./json-body.ts";

/** `array`: valid JSON. Undefined if it is not an array, or is shorter. */
export function elementOf(array: string, index: number): string | undefined {
  let at = 0;
  for (let element = 0; element <= index; element++) {
    if (array[at] !== (element === 0 ? "[" : ",")) return undefined;
    const start = spaceEnd(array, at + 1);
    const end = valueEnd(array, start);
    if (element === index) return end === start ? undefined : array.slice(start, end);
    at = spaceEnd(array, end);
  }
  return undefined;
}

export function withoutWhiteSpace(text: string): string {
  let result = "";
  let start = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = stringEnd(text, at) - 1;
    const end = spaceEnd(text, at);
    if (end === at) continue;
    result += text.slice(start, at);
    start = end;
    at = end - 1;
  }
  return start === 0 ? text : result + text.slice(start);
}

/** Undefined if there is no such member. */
export function memberAt(value: JsonBody, path: readonly string[]): string | undefined {
  const bytes = typeof value === "string" ? Buffer.from(value) : value;
  return memberBytes(bytes, path)?.toString();
}

/** Returns the part of `bytes` that is the value of the member. Undefined if there is no such member. */
export function memberBytes(bytes: Buffer, path: readonly string[]): Buffer | undefined {
  let start = skipSpace(bytes, 0, bytes.length);
  for (const name of path) {
    start = findMember(bytes, start, bytes.length, name);
    if (start === malformed) return undefined;
  }
  const end = skipValue(bytes, start, bytes.length, path.length, "trusted");
  return end === malformed ? undefined : bytes.subarray(start, end);
}
