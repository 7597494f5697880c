import assert from "node:assert/strict";
import { test } from "node:test";
import { runCampaign } from "./campaign.ts";
import { findPrograms } from "./programs.ts";

/** The start, the refusals at the end and the stop take about one minute more. */
const minutes = 1;
const seed = 1;

test("three replicas keep every promise while processes, servers and connections fail", async (t) => {
  const programs = await findPrograms();
  if ("missing" in programs) {
    const needed = `needs ${programs.missing.join(", ")}`;
    if (process.env["CI"] === "true") throw new Error(`${needed}: see .ci/run`);
    t.skip(needed);
    return;
  }
  t.diagnostic(`npm run chaos -- --minutes ${minutes} --seed ${seed}`);
  const result = await runCampaign({ minutes, seed, replicas: 3, programs });
  const { figures, violations, crashes } = result;
  t.diagnostic(JSON.stringify(result));
  assert.deepEqual(
    Object.fromEntries(Object.entries(violations).filter(([, all]) => all.length)),
    {},
  );
  assert.deepEqual(crashes, []);
  assert.equal(figures.overshootMilliCu, 0);
  // Without these events, the rules would have nothing to check.
  assert.ok(figures.charges > 0 && figures.refused > 0 && figures.fenced > 0);
});
