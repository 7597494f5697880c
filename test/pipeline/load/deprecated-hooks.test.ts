/** Plugins with deprecated hooks start, and the log warns. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deprecations, type Deprecation } from "../../../src/contract/version.ts";
import { defineService, defineStep } from "../../../src/plugin.ts";
import { testService, testStep } from "../../../src/testing/test-plugin.ts";

function deprecate(t: TestContext, entry: Omit<Deprecation, "removedIn" | "instead">): void {
  deprecations.push({ ...entry, removedIn: "2.0", instead: "Remove it." });
  t.after(() => deprecations.pop());
}

const description = "Has a deprecated hook.";
const warning = (hook: string): RegExp =>
  new RegExp(`the hook ${hook} will be removed in version 2.0`);

test("the start of a service with a deprecated hook logs a warning", async (t) => {
  deprecate(t, { kind: "service", hook: "ready" });
  const start = (): { service: object; ready: () => true } => ({ service: {}, ready: () => true });
  await using tested = await testService(defineService({ name: "old", description, start }));
  assert.match(tested.lines.join("\n"), warning("ready"));
});

test("the start of a step with a deprecated hook logs a warning", async (t) => {
  deprecate(t, { kind: "step", hook: "settled" });
  const start = (): { settled: () => void } => ({ settled() {} });
  await using tested = await testStep(defineStep({ name: "old", description, start }));
  assert.match(tested.lines.join("\n"), warning("settled"));
});
