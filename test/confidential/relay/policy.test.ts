/** The policy document that a gateway signs itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBase64Url } from "../../../src/confidential/layout.ts";
import { createPolicy, policySigner } from "../../../src/confidential/relay/policy.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";

const hourMs = 3_600_000;

async function serialAt(policy: ReturnType<typeof createPolicy>): Promise<unknown> {
  const bytes = fromBase64Url((await policy()).policy) ?? new Uint8Array();
  // The document's own bytes.
  return (JSON.parse(Buffer.from(bytes).toString()) as { serial: unknown }).serial;
}

test("replicas that started at different moments serve the same serial, and the next with the hour", async () => {
  const begun = Date.UTC(2026, 10, 21, 8);
  const started = (ms: number): [ManualClock, ReturnType<typeof createPolicy>] => {
    const clock = manualClock(begun + ms);
    return [clock, createPolicy([], policySigner("secret"), clock)];
  };
  const replicas = [started(1_000), started(hourMs - 60_000)];
  for (const [, policy] of replicas) assert.equal(await serialAt(policy), begun / 1000);
  for (const [clock, policy] of replicas) {
    clock.advance(begun + hourMs - clock.now());
    assert.equal(await serialAt(policy), (begun + hourMs) / 1000);
  }
});
