/** The checks of one verification. What was never reached counts against the evidence. */
import type { Check } from "./report.ts";

export interface Checklist<Name extends string> {
  /** `fault`: why it failed; undefined is a pass. Returns whether it passed. A failure stays a failure. */
  record(name: Name, fault: string | undefined): boolean;
  /** The policy does not ask for this one. */
  skip(name: Name, why: string): void;
  /** Every check passed or was skipped by the policy. */
  hasPassed(): boolean;
  /** In the order of the names. */
  list(): readonly Check[];
}

/** `names`: every check that there is, in the order in which a reader should see them. */
export function createChecklist<Name extends string>(names: readonly Name[]): Checklist<Name> {
  const done = new Map<Name, Check>();
  return {
    record(name, fault) {
      if (done.get(name)?.result === "fail") return false;
      const result = fault === undefined ? "pass" : "fail";
      done.set(name, { name, result, ...(fault === undefined ? {} : { why: fault }) });
      return fault === undefined;
    },
    skip(name, why) {
      if (!done.has(name)) done.set(name, { name, result: "skipped", why });
    },
    hasPassed: () => names.every((name) => (done.get(name)?.result ?? "fail") !== "fail"),
    list: () =>
      names.map((name) => done.get(name) ?? { name, result: "skipped", why: "not reached" }),
  };
}
