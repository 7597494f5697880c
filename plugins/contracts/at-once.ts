/** Reads values of the embedded store, which answers at once. */
import type { Awaitable } from "sluice-gateway/plugin";

/** Returns the value. Throws if it is a promise. */
export function atOnce<T>(value: Awaitable<T>): T {
  if (value instanceof Promise) throw new Error("expected an answer at once, got a promise");
  return value;
}
