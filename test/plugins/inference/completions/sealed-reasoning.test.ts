/** Reasoning that clients keep for the gateway and cannot read or change. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  createReasoningSeal,
  maxReasoningBytes,
} from "../../../../plugins/inference/completions/sealed-reasoning.ts";
import { createSeal } from "../../../../src/store/seal.ts";

const one = createReasoningSeal(createSeal("secret"));

test("sealed reasoning can be opened with the same secret, and shows nothing of its text", () => {
  const text = "Ünder the file is a.txt";
  const sealed = one.seal(text) ?? "";
  assert.equal(createReasoningSeal(createSeal("secret")).open(sealed), text);
  assert.ok(!Buffer.from(sealed, "base64").includes("a.txt"));
  assert.notEqual(one.seal(text), sealed);
});

test("another secret, a changed byte and foreign texts are not opened", () => {
  const sealed = one.seal("thought") ?? "";
  assert.equal(createReasoningSeal(createSeal("other")).open(sealed), undefined);
  const bytes = Buffer.from(sealed, "base64");
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    assert.equal(one.open(changed.toString("base64")), undefined, `byte ${at}`);
  }
  for (const foreign of ["", "gAAAAAB", "%%%", "AQ==", "a".repeat(1_000_000)]) {
    assert.equal(one.open(foreign), undefined);
  }
});

test("reasoning up to 64 KiB is sealed, and nothing longer", () => {
  const longest = "x".repeat(maxReasoningBytes);
  assert.equal(one.open(one.seal(longest) ?? ""), longest);
  assert.equal(one.seal(`${longest}x`), undefined);
  assert.equal(one.seal(""), undefined);
});
