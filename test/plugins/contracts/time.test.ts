import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { parseTime } from "../../../plugins/contracts/time.ts";

test("times of RFC 3339 and dates are milliseconds since 1970", () => {
  const noon = Date.UTC(2026, 0, 31, 12);
  for (const text of [
    "2026-01-31T12:00:00Z",
    "2026-01-31t12:00:00.000z",
    "2026-01-31T13:30:00+01:30",
    "2026-01-31T12:00:00-00:00",
  ]) {
    assert.equal(parseTime(text), noon, text);
  }
  assert.equal(parseTime("2026-01-31"), Date.UTC(2026, 0, 31));
  assert.equal(parseTime("2024-02-29"), Date.UTC(2024, 1, 29));
});

test("text that is not a time, or not a valid date, is undefined", () => {
  for (const text of [
    "",
    "2026",
    "2026-1-1",
    "2026-02-29",
    "2026-13-01",
    "2026-04-31T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01 00:00:00Z",
    "1767225600000",
    "now",
  ]) {
    assert.equal(parseTime(text), undefined, text);
  }
});

test("every instant of four-digit years is read back from its own text", () => {
  const instants = fc.date({
    min: new Date("0001-01-01"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true,
  });
  fc.assert(
    fc.property(instants, (date) => assert.equal(parseTime(date.toISOString()), date.getTime())),
  );
});
