import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { canonicalBytes } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readJsonObject } from "../../../../plugins/confidential/protocol/strict-json.ts";
import {
  readTextFrame,
  usageOf,
  writeAttestation,
  writeReportFrame,
} from "../../../../plugins/confidential/protocol/text-frames.ts";
import { bytesOf, codeOf, shake, unwrap, textOf } from "./session.ts";

const canonical = (value: unknown): string | undefined => {
  const bytes = canonicalBytes(value);
  return bytes === undefined ? undefined : textOf(bytes);
};
const strict = (text: string): unknown => readJsonObject(bytesOf(text), 1_000_000);

/** Up to the depth at which both implementations agree. */
const nested = (depth: number): string => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;

describe("canonical JSON", () => {
  test("RFC 8785, 3.2.2: numbers, strings and literals", () => {
    const text = `{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
      "string":"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}`;
    assert.equal(
      canonical(JSON.parse(text)),
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });
});

describe("strict JSON", () => {
  test("accepts only an object in plain UTF-8 within its limits", () => {
    for (const text of ["[]", '"a"', "1", "null", "", "{", '{"a":1,}', "{'a':1}", '{"a":01}']) {
      assert.equal(strict(text), undefined, text);
    }
    assert.equal(strict("\u{feff}{}"), undefined);
    assert.equal(readJsonObject(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d), 100), undefined);
    assert.deepEqual(readJsonObject(bytesOf("{}"), 2), {});
    assert.equal(readJsonObject(bytesOf("{} "), 2), undefined);
    assert.notEqual(strict(nested(127)), undefined);
    assert.equal(strict(nested(128)), undefined);
    assert.equal(strict(nested(100_000)), undefined);
  });
});

describe("text frames", () => {
  const sig = new Uint8Array(64).fill(5);
  const report = bytesOf("{}");

  test("an attestation is read as it was written, with evidence or its digest", async () => {
    const { core, sig: signature } = (await shake()).answer;
    const evidence = { tee_type: "simulated", quote: "AA==", simulated: true };
    const full = unwrap(readTextFrame(bytesOf(writeAttestation(core, signature, { evidence }))));
    assert.ok(full.kind === "attestation");
    assert.deepEqual(full.core, Uint8Array.from(core));
    assert.deepEqual(full.sig, Uint8Array.from(signature));
    assert.deepEqual(full.evidence, evidence);
    const digest = `sha256:${"3".repeat(64)}`;
    const known = writeAttestation(core, signature, { evidence_digest: digest });
    const short = unwrap(readTextFrame(bytesOf(known)));
    assert.ok(short.kind === "attestation");
    assert.equal(short.evidenceDigest, digest);
    for (const text of [
      known.replace(digest, "sha256:3"),
      known.replace("evidence_digest", "other"),
      known.replace('"sig":"', '"sig":"A'),
      known.replace('"core"', '"coal"'),
    ]) {
      assert.equal(codeOf(readTextFrame(bytesOf(text))), "BAD_FRAME");
    }
  });

  test("a report frame is read as it was written", () => {
    const frame = unwrap(readTextFrame(bytesOf(writeReportFrame(3, report, sig))));
    assert.deepEqual(frame, { kind: "report", rid: 3, report, sig });
    const text = writeReportFrame(3, report, sig);
    for (const wrong of [text.replace("3", "-3"), text.replace('"sig"', '"sign"')]) {
      assert.equal(codeOf(readTextFrame(bytesOf(wrong))), "BAD_FRAME");
    }
  });

  test("a done frame is read with its tokens, with or without a report", () => {
    const tokens = { prompt: 9, completion: 5, cached: 4, reasoning: 2 };
    const done = { type: "done", rid: 1, usage: usageOf(tokens), usedCUMilli: 12, pricing: {} };
    const frame = unwrap(readTextFrame(bytesOf(JSON.stringify(done))));
    assert.ok(frame.kind === "done");
    assert.deepEqual(frame.usage, { ...tokens, total: 14 });
    assert.equal(frame.usedMilliCu, 12);
    assert.equal(frame.report, undefined);
    const plain = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const brief = unwrap(readTextFrame(bytesOf(JSON.stringify({ ...done, usage: plain }))));
    assert.ok(brief.kind === "done");
    const none = { cached: 0, reasoning: 0 };
    assert.deepEqual(brief.usage, { prompt: 1, completion: 2, total: 3, ...none });
    for (const members of [
      { rid: "1" },
      { usage: null },
      { usage: {} },
      { usedCUMilli: -1 },
      { paidBeforeCUMilli: "6" },
    ]) {
      const text = JSON.stringify({ ...done, ...members });
      assert.equal(codeOf(readTextFrame(bytesOf(text))), "BAD_FRAME");
    }
  });

  test("an error frame has a code only if the protocol defines it", () => {
    const read = (members: object): object =>
      readTextFrame(bytesOf(JSON.stringify({ type: "error", ...members })));
    assert.deepEqual(read({ code: "REPLAY" }), { kind: "error", code: "REPLAY" });
    assert.deepEqual(read({ code: "toString" }), { kind: "error", code: undefined });
    assert.deepEqual(read({}), { kind: "error", code: undefined });
  });
});

describe("untrusted text", () => {
  test("a string of backslashes and quotes as long as a frame is read in one pass", () => {
    const text = `{"a":"${"\\\\".repeat(250_000)}","b":"${'\\"'.repeat(200_000)}"}`;
    assert.notEqual(strict(text), undefined);
    assert.equal(strict(text.replace('"b"', '"a"')), undefined);
  });
});
