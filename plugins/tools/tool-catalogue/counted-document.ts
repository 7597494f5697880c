/** Counts the reads of the resources of a plugin, and the uses of its prompts. */
import type { HookCounts } from "sluice-gateway/plugin";

/**
 * Returns a copy of the object whose method `name` counts each call. The method itself still runs on the original
 * object, which may have private members.
 */
export function counted<Name extends string, Document extends Readonly<Record<Name, Method>>>(
  document: Document,
  name: Name,
  counts: HookCounts,
): Document {
  const call = (...args: readonly never[]): unknown => counts.call(() => document[name](...args));
  // The copy has all members of the original.
  const copy = Object.create(Object.getPrototypeOf(document) as object) as Document;
  return Object.assign(copy, document, { [name]: call });
}

type Method = (...args: readonly never[]) => unknown;
