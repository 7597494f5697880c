/** Tests of the arithmetic of milli-CU and US dollars. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  overageSumUsd,
  overageUsd,
  valueUsd,
} from "../../../../plugins/dashboard/dashboard/money.ts";

test("a milli-CU is worth a nano-USD", () => {
  assert.equal(valueUsd(0), "0");
  assert.equal(valueUsd(1), "0.000000001");
  assert.equal(valueUsd(1_000_000_000), "1");
  assert.equal(valueUsd(2_500_000_000), "2.5");
  assert.equal(valueUsd(Number.MAX_SAFE_INTEGER), "9007199.254740991");
});

test("overage costs the price of the plan, rounded half up to a nano-USD", () => {
  assert.equal(overageUsd(1_500, "0.001"), "0.0015");
  assert.equal(overageUsd(1, "0.0000005"), "0.000000001");
  assert.equal(overageUsd(1, "0.0000004"), "0");
  assert.equal(overageUsd(5, undefined), "0");
});

test("the overage of several plans is added up at their prices", () => {
  const parts = [
    { milliCu: 1_000, usdPerCu: "0.001" },
    { milliCu: 2_000, usdPerCu: "0.01" },
    { milliCu: 3_000, usdPerCu: undefined },
  ];
  assert.equal(overageSumUsd(parts), "0.021");
});
