import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createChecklist } from "../../../../plugins/confidential/verify/checklist.ts";

describe("a checklist", () => {
  test("has passed if every check passed or was skipped by the policy", () => {
    const checks = createChecklist(["a", "b"]);
    assert.equal(checks.record("a", undefined), true);
    checks.skip("b", "not asked for");
    assert.equal(checks.hasPassed(), true);
    assert.deepEqual(checks.list(), [
      { name: "a", result: "pass" },
      { name: "b", result: "skipped", why: "not asked for" },
    ]);
  });

  test("counts a check that was never reached as failed", () => {
    const checks = createChecklist(["a", "b"]);
    checks.record("a", undefined);
    assert.equal(checks.hasPassed(), false);
    assert.deepEqual(checks.list()[1], { name: "b", result: "skipped", why: "not reached" });
  });

  test("keeps a failure, whatever is recorded afterwards", () => {
    const checks = createChecklist(["a"]);
    assert.equal(checks.record("a", "broken"), false);
    assert.equal(checks.record("a", undefined), false);
    checks.skip("a", "not asked for");
    assert.equal(checks.hasPassed(), false);
    assert.deepEqual(checks.list(), [{ name: "a", result: "fail", why: "broken" }]);
  });
});
