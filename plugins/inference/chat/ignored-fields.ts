/**
 * Fields of a request that no worker gets, because gateway.md says so: the answer names them in a header, so that a
 * client can find out why its tools or its temperature had no effect.
 */
import type { Counter, Metrics, Reply } from "sluice-gateway/plugin";
import { ignoredFields } from "./request.ts";

export const ignoredHeader = "x-sluice-ignored";

/** The flat header of those fields; empty without any. Their names are words of ours, so the header is bounded. */
export function ignoredFieldsHeader(ignored: readonly string[]): readonly string[] {
  return ignored.length === 0 ? [] : [ignoredHeader, ignored.join(", ")];
}

/** The reply with the header. */
export function withIgnoredFields(reply: Reply, ignored: readonly string[]): Reply {
  if (ignored.length === 0) return reply;
  return { ...reply, headers: [...(reply.headers ?? []), ...ignoredFieldsHeader(ignored)] };
}

/** Counts the fields of a request, by name. */
export function ignoredCounter(metrics: Metrics): (ignored: readonly string[]) => void {
  const family = metrics.counter(
    "sluice_chat_ignored_fields_total",
    "Chat requests with a field that is accepted but ignored, by field.",
    ["field"],
  );
  const counters = new Map<string, Counter>(
    ignoredFields.map((field) => [field, family.with({ field })]),
  );
  return (ignored) => {
    for (const field of ignored) counters.get(field)?.add(1);
  };
}
