import assert from "node:assert/strict";
import { test } from "node:test";
import accounts from "../../../../plugins/billing/accounts/index.ts";
import { plansOf, type Options } from "../../../../plugins/billing/accounts/options.ts";
import type { Plans } from "../../../../plugins/billing/accounts/principal.ts";
import { parseConfig } from "../../../../src/config/read.ts";

const routes = "routes: [{ path: /a, to: echo }]\n";

function read(text: string): Plans {
  const { config, faults } = parseConfig(text, "/pipeline.yaml", {}, [accounts]);
  assert.deepEqual(faults, []);
  // The file was checked with the schema of the service.
  return plansOf(config?.sections as unknown as Options);
}

test("plans have the terms of the specification, in milli-CU", () => {
  const plan = (
    rps: number,
    includedCu: number,
    overageUsdPerCu: string | undefined,
    maxKeys: number,
  ): object => {
    return { rps, includedMilliCu: includedCu * 1_000, overageUsdPerCu, maxKeys };
  };
  assert.deepEqual(read(`version: 1\n${routes}`), {
    free: plan(2, 10_000_000, undefined, 10),
    developer: plan(10, 29_000_000, "0.001", 50),
    startup: plan(50, 99_000_000, "0.001", 250),
    enterprise: plan(200, 499_000_000, "0.001", 1_000),
  });
});

test("one term of a plan can be changed without the others, and a rate keeps its digits", () => {
  const plans = read(`version: 1
plans: { free: { rps: 3 }, startup: { overageUsdPerCu: 0.0010 }, enterprise: { overageUsdPerCu: none } }
${routes}`);
  assert.deepEqual(plans.free, {
    rps: 3,
    includedMilliCu: 10_000_000_000,
    overageUsdPerCu: undefined,
    maxKeys: 10,
  });
  assert.equal(plans.startup.overageUsdPerCu, "0.0010");
  assert.equal(plans.enterprise.overageUsdPerCu, undefined);
});
