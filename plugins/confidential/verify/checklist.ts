/** The checks of one verification. A check that was never reached counts as failed. */
import type { Check } from "./report.ts";

export interface Checklist<Name extends string> {
  /** Returns true if the check passed. `fault`: the reason for a failure. A check that has failed stays failed. */
  record(name: Name, fault: string | undefined): boolean;
  skip(name: Name, why: string): void;
  /** Returns true if every check passed or was skipped by the policy. */
  hasPassed(): boolean;
  list(): readonly Check[];
}

/** `names`: in the order in which reports list the checks. */
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
