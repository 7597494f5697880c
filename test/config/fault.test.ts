/** Tests of the order and the text of faults, and of the remedies of all codes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fault, orderFaults, shownPath, type Position } from "../../src/config/fault.ts";
import { sluiceErrors } from "../../src/base/errors.ts";

function at(line: number, col: number, file = "/srv/pipeline.yaml"): Position {
  return { file, line, col };
}

test("faults are sorted by file and position; faults without a position come first", () => {
  const faults = [
    fault("SLUICE_KEY_UNKNOWN", "c", { at: at(10, 1) }),
    fault("SLUICE_KEY_UNKNOWN", "b", { at: at(9, 20) }),
    fault("SLUICE_KEY_UNKNOWN", "d", { at: at(1, 1, "/srv/x.yaml") }),
    fault("SLUICE_KEY_UNKNOWN", "a", { at: at(9, 3) }),
    fault("SLUICE_START_FAILED", "none"),
  ];
  const messages = orderFaults(faults).map((one) => one.message);
  assert.deepEqual(messages, ["none", "a", "b", "c", "d"]);
});

test("duplicate faults at the same position are reported once", () => {
  const one = fault("SLUICE_KEY_UNKNOWN", "x", { at: at(1, 1) });
  const elsewhere = fault("SLUICE_KEY_UNKNOWN", "x", { at: at(2, 1) });
  assert.equal(orderFaults([one, { ...one }, elsewhere]).length, 2);
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
