/** The bound of a token bucket, checked on what several replicas admitted. */
import assert from "node:assert/strict";

/** An admitted request: times of the request and of the decision in microseconds. */
export interface Admission {
  readonly start: number;
  readonly end: number;
}

/**
 * Asserts for each pair i, j of admissions: those that began after i began and ended before j ended are at most burst +
 * rate × time. `rate`: thousandths of a request per second.
 */
export function assertBound(
  admissions: readonly Admission[],
  rate: number,
  capacity: number,
): void {
  const byEnd = admissions.toSorted((a, b) => a.end - b.end);
  for (const start of new Set(admissions.map((each) => each.start))) {
    let count = 0;
    for (const each of byEnd) {
      if (each.start < start) continue;
      count++;
      const allowed = capacity * 1e9 + rate * (each.end - start);
      assert.ok(count * 1e9 <= allowed, `${count} requests within ${each.end - start} µs`);
    }
  }
}
