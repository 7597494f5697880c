/** Reads a choice, or another JSON object, that a worker wrote. */
import { isObject, parseJson } from "sluice-gateway/toolkit";

/** `bytes`: JSON in UTF-8 from `start` to `end`. Returns an empty object if it is not a JSON object. Never throws. */
export function readChoice(
  bytes: Buffer,
  start: number,
  end: number,
): Readonly<Record<string, unknown>> {
  try {
    const choice = parseJson(bytes.toString("utf8", start, end));
    return isObject(choice) ? choice : {};
  } catch {
    return {};
  }
}
