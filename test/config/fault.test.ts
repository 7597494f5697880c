/** Tests of the order and the text of faults, and of the remedies of all codes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fault, orderFaults, shownPath, type Position } from "../../src/config/fault.ts";
import { sluiceErrors } from "../../src/base/errors.ts";

test("faults are sorted by file, and those without a position come first", () => {
  const at = (file: string, line: number): Position => ({ file, line, col: 1 });
  const faults = [
    fault("SLUICE_KEY_UNKNOWN", "b", { at: at("/srv/x.yaml", 1) }),
    fault("SLUICE_KEY_UNKNOWN", "a", { at: at("/srv/pipeline.yaml", 9) }),
    fault("SLUICE_START_FAILED", "none"),
  ];
  const messages = orderFaults(faults).map((one) => one.message);
  assert.deepEqual(messages, ["none", "a", "b"]);
});

test("only paths in the working directory are printed as relative paths", () => {
  assert.equal(shownPath("/srv/a/pipeline.yaml", "/srv"), "a/pipeline.yaml");
  assert.equal(shownPath("/srv/pipeline.yaml", "/srv/a"), "/srv/pipeline.yaml");
  assert.equal(shownPath("/srv/..a/pipeline.yaml", "/srv"), "..a/pipeline.yaml");
  assert.equal(shownPath("pipeline.yaml", "/srv"), "pipeline.yaml");
});

test("every code has a remedy that is a sentence", () => {
  for (const [code, remedy] of Object.entries(sluiceErrors)) {
    assert.match(code, /^SLUICE_[A-Z]+(_[A-Z]+)*$/);
    assert.match(remedy, /^[A-Z].*[.}]$/s, code);
  }
});
