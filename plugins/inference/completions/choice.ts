/** Reads JSON that a worker or its model wrote. */
import { isObject, parseJson } from "sluice-gateway/toolkit";
import type { Json } from "./check.ts";

/** Returns undefined if the text is not a JSON object. Never throws. */
export function readObject(text: string): Json | undefined {
  try {
    const value = parseJson(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** `bytes`: JSON in UTF-8 from `start` to `end`. Returns an empty object if it is not a JSON object. Never throws. */
export function readChoice(bytes: Buffer, start: number, end: number): Json {
  return readObject(bytes.toString("utf8", start, end)) ?? {};
}
