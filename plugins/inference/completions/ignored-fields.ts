/**
 * Members of a request that are not forwarded to workers. The answer names them in a header, so that a client can find
 * out why its tools or its temperature had no effect.
 */
import type { Counter, Metrics, Reply } from "sluice-gateway/plugin";
import { isAbsent } from "sluice-gateway/internal/toolkit";

const ignoredHeader = "x-sluice-ignored";

const nameForm = /^[A-Za-z0-9_.-]{1,40}$/;
const maxChosen = 15;

export class IgnoredNames {
  readonly #names = new Set<string>();
  #chosen = 0;

  /** Adds a name from a fixed list. It is always kept, because what it names is also removed for a native worker. */
  add(name: string): void {
    this.#names.add(name);
  }

  /**
   * Adds a name that the client has chosen. One that is too long or has other characters, and every one above the maximum
   * number, is reported as `other`.
   */
  addChosen(name: string): void {
    if (this.#names.has(name)) return;
    const isKept = this.#chosen < maxChosen && nameForm.test(name);
    if (isKept) this.#chosen++;
    this.#names.add(isKept ? name : "other");
  }

  addOthers(
    object: Readonly<Record<string, unknown>>,
    known: readonly string[],
    prefix: string,
  ): void {
    for (const name of Object.keys(object)) {
      if (!known.includes(name) && !isAbsent(object[name])) this.addChosen(prefix + name);
    }
  }

  get names(): readonly string[] {
    return [...this.#names];
  }
}

/** Returns a flat list. The names come from a fixed list or from `IgnoredNames`, so the header is bounded. */
export function ignoredFieldsHeader(ignored: readonly string[]): readonly string[] {
  return ignored.length === 0 ? [] : [ignoredHeader, ignored.join(", ")];
}

export function withIgnoredFields(reply: Reply, ignored: readonly string[]): Reply {
  if (ignored.length === 0) return reply;
  return { ...reply, headers: [...(reply.headers ?? []), ...ignoredFieldsHeader(ignored)] };
}

export function ignoredCounter(
  metrics: Metrics,
  names: readonly string[],
): (ignored: readonly string[]) => void {
  const family = metrics.counter(
    "sluice_chat_ignored_fields_total",
    "Chat requests with a field that is accepted but ignored, by field.",
    ["field"],
  );
  const counters = new Map<string, Counter>(names.map((field) => [field, family.with({ field })]));
  return (ignored) => {
    for (const field of ignored) counters.get(field)?.add(1);
  };
}
