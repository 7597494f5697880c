/** Reads JSON that a worker, its model or a client wrote as text. Nothing here throws. */
import { isObject, parseJson } from "sluice-gateway/internal/toolkit";

/** Returns undefined if the text is not JSON. */
export function readJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Returns undefined if the text is not a JSON object. */
export function readObject(text: string): Readonly<Record<string, unknown>> | undefined {
  const value = readJson(text);
  return isObject(value) ? value : undefined;
}

/** `bytes`: JSON in UTF-8 from `start` to `end`. Returns an empty object if it is not a JSON object. */
export function readChoice(
  bytes: Buffer,
  start = 0,
  end = bytes.length,
): Readonly<Record<string, unknown>> {
  return readObject(bytes.toString("utf8", start, end)) ?? {};
}
