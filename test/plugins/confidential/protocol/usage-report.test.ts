import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { webSuite } from "../../../../plugins/confidential/client/web-crypto.ts";
import type { WatchedExchange } from "../../../../plugins/confidential/protocol/frame-watch.ts";
import { toBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { createSigner, nodeSuite } from "../../../../plugins/confidential/protocol/node-crypto.ts";
import { verifyUsageReport } from "../../../../plugins/confidential/protocol/verify-usage-report.ts";
import type {
  ReportExpectation,
  ReportVerdict,
  SignedReport,
  UnverifiedReason,
} from "../../../../plugins/confidential/protocol/verify-usage-report.ts";
import {
  readReport,
  reportMessage,
  writeReport,
} from "../../../../plugins/confidential/protocol/usage-report.ts";
import type { UsageReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { createSeenCounters } from "../../../../plugins/confidential/protocol/seen-counters.ts";
import type { Signer } from "../../../../plugins/confidential/protocol/suite.ts";
import { toHex, type Bytes } from "../../../../plugins/confidential/verify/binary-text.ts";
import { bytesOf, now, reportSigner, unwrap, textOf, withFlippedBit } from "./session.ts";

const th = new Uint8Array(32).fill(3);
const session = toBase64Url(new Uint8Array(16).fill(7));
const keysetDigest = `sha256:${"1".repeat(64)}`;
const exchange: WatchedExchange = {
  rid: 2,
  reqDigest: "a".repeat(64),
  resDigest: "b".repeat(64),
  hasEnded: true,
  requestBytes: 288,
  responseBytes: 576,
};
const tokens = { prompt: 9, completion: 5, cached: 4, reasoning: 2 };
const reportedUsage = { ...tokens, total: 14 };
const report: UsageReport = {
  coefficient: 1000,
  ctr: 17,
  finish: "stop",
  iat: now,
  keyset: keysetDigest,
  model: "demo",
  net: "confidential-alpha",
  reqDigest: exchange.reqDigest,
  resDigest: exchange.resDigest,
  rid: 2,
  session,
  th: toHex(th),
  tokens,
};
const own: ReportExpectation = {
  evidence: "accepted",
  keysetDigest,
  reportKey: reportSigner.publicKey,
  notAfter: now + 3000,
  now,
  session,
  th,
  exchange,
  net: "confidential-alpha",
  model: "demo",
  maxOutputTokens: 64,
  usage: reportedUsage,
  claimCounter: () => true,
};

async function signed(bytes: Bytes, signer: Signer = reportSigner): Promise<SignedReport> {
  return { report: bytes, sig: await signer.sign(reportMessage(bytes)) };
}

async function verdictOf(
  changed: Partial<UsageReport>,
  account: Partial<ReportExpectation> = {},
): Promise<ReportVerdict> {
  const bytes = unwrap(writeReport({ ...report, ...changed }));
  return verifyUsageReport(nodeSuite, await signed(bytes), { ...own, ...account });
}

const json = JSON.parse(textOf(unwrap(writeReport(report)))) as Record<string, unknown>;
const changed = (members: object): Bytes => bytesOf(JSON.stringify({ ...json, ...members }));

describe("a usage report", () => {
  test("is written canonically and read back", () => {
    const bytes = unwrap(writeReport(report));
    assert.deepEqual(readReport(bytes), report);
    assert.equal(textOf(bytes).startsWith('{"coefficient":1000,"ctr":17,"finish":"stop"'), true);
    assert.equal(writeReport({ ...report, model: "\ud800" }), undefined);
  });

  const wrong: readonly object[] = [
    { typ: "cstream-usage/2" },
    { coefficient: "1000" },
    { ctr: -1 },
    { ctr: 2 ** 53 },
    { finish: "done" },
    { iat: "now" },
    { keyset: "1".repeat(64) },
    { model: 1 },
    { req_digest: "A".repeat(64) },
    { res_digest: "a".repeat(63) },
    { rid: null },
    { session: "VVVV" },
    { th: "" },
    { tokens: [] },
    { tokens: { ...tokens, cached: undefined } },
    { tokens: { ...tokens, completion: 1.5 } },
  ];
  test("with a wrong member or without one is refused", () => {
    for (const members of wrong)
      assert.equal(readReport(changed(members)), undefined, JSON.stringify(members));
  });

  test("with a duplicate member is refused, although JSON.parse accepts it", () => {
    const text = textOf(unwrap(writeReport(report)));
    for (const twice of [
      text.replace('"ctr":17', '"ctr":17,"ctr":17'),
      text.replace('"cached":4', '"cached":4,"cached":0'),
      text.replace('"ctr":17', '"c\\u0074r":18,"ctr":17'),
    ]) {
      assert.equal(typeof JSON.parse(twice), "object");
      assert.equal(readReport(bytesOf(twice)), undefined);
    }
  });
});

describe("the verdict on a report", () => {
  test("is positive if everything matches, with both implementations of the cryptography", async () => {
    const verdict = await verdictOf({});
    assert.equal(verdict.verified, true);
    assert.deepEqual(verdict.report, report);
    assert.ok(verdict.checks.every(({ result }) => result === "pass"));
    const bytes = unwrap(writeReport(report));
    const again = await verifyUsageReport(webSuite, await signed(bytes), own);
    assert.deepEqual(again, verdict);
  });

  /** `client/attacks.test.ts` has the other reasons, over the wire. */
  const reasons: readonly (readonly [
    string,
    UnverifiedReason,
    Partial<UsageReport>,
    Partial<ReportExpectation>,
  ])[] = [
    ["refused evidence", "policy", {}, { evidence: "refused" }],
    ["an expired keyset", "stale", {}, { notAfter: now }],
    ["a keyset for too long", "stale", {}, { notAfter: now + 3601 }],
    ["a report to come", "stale", { iat: now + 301 }, {}],
    ["no END", "digest_mismatch", {}, { exchange: { ...exchange, hasEnded: false } }],
    ["other details", "usage_mismatch", {}, { usage: { ...reportedUsage, reasoning: 0 } }],
    [
      "more tokens than were sent",
      "usage_mismatch",
      { tokens: { ...tokens, prompt: 288 + 16_385 } },
      { usage: { ...reportedUsage, prompt: 288 + 16_385, total: 288 + 16_390 } },
    ],
    ["more cached than all", "usage_mismatch", { tokens: { ...tokens, cached: 10 } }, {}],
    ["a counter seen before", "replay", {}, { claimCounter: () => false }],
  ];
  for (const [name, reason, difference, account] of reasons) {
    test(`${name}: ${reason}`, async () => {
      const verdict = await verdictOf(difference, account);
      assert.deepEqual([verdict.verified, verdict.unverifiedReason], [false, reason]);
      const failed = verdict.checks.filter(({ result }) => result === "fail");
      assert.equal(failed.length, 1, JSON.stringify(failed));
    });
  }

  test("is no_report if there is no report, or if a signed report cannot be read", async () => {
    const none = await verifyUsageReport(nodeSuite, undefined, own);
    assert.deepEqual([none.verified, none.unverifiedReason], [false, "no_report"]);
    const typed = await verifyUsageReport(
      nodeSuite,
      await signed(changed({ typ: "other/1" })),
      own,
    );
    assert.deepEqual([typed.verified, typed.unverifiedReason], [false, "no_report"]);
    assert.equal(typed.report, undefined);
  });

  test("is negative if a bit of the report or of the signature is flipped", async () => {
    const { report: bytes, sig } = await signed(unwrap(writeReport(report)));
    for (const other of [
      { report: withFlippedBit(bytes, bytes.length >> 1), sig },
      { report: bytes, sig: withFlippedBit(sig, 40) },
      { report: bytes, sig: new Uint8Array(0) },
    ]) {
      const verdict = await verifyUsageReport(nodeSuite, other, own);
      assert.equal(verdict.verified, false);
      const check = verdict.checks.find(({ name }) => name === "signature");
      assert.equal(check?.result, "fail");
    }
  });

  test("is replay for a request of which no frame was seen", async () => {
    assert.equal((await verdictOf({}, { exchange: undefined })).unverifiedReason, "replay");
  });

  test("has the reason of the first failed check; the check for simulation is the last", async () => {
    const all: Partial<UsageReport> = {
      keyset: `sha256:${"2".repeat(64)}`,
      iat: 0,
      rid: 9,
      reqDigest: "c".repeat(64),
      model: "other",
    };
    const order: readonly (readonly [keyof UsageReport | "evidence", UnverifiedReason])[] = [
      ["evidence", "policy"],
      ["keyset", "unknown_key"],
      ["iat", "stale"],
      ["rid", "replay"],
      ["reqDigest", "digest_mismatch"],
      ["model", "usage_mismatch"],
    ];
    const left: Record<string, unknown> = { ...all };
    for (const [mended, reason] of order) {
      const isFirst = mended === "evidence";
      const verdict = await verdictOf(left, { evidence: isFirst ? "refused" : "simulated" });
      assert.equal(verdict.unverifiedReason, reason);
      delete left[mended];
    }
    assert.equal((await verdictOf(left, { evidence: "simulated" })).unverifiedReason, "simulated");
  });

  test("uses up a counter only for a signed report of this session", async () => {
    const claimed: number[] = [];
    const claimCounter = (_: string, ctr: number): boolean => claimed.push(ctr) > 0;
    await verdictOf({ keyset: `sha256:${"2".repeat(64)}` }, { claimCounter });
    await verdictOf({ session: toBase64Url(new Uint8Array(16)) }, { claimCounter });
    await verdictOf({}, { claimCounter, reportKey: createSigner().publicKey });
    assert.deepEqual(claimed, []);
    await verdictOf({ reqDigest: "c".repeat(64) }, { claimCounter });
    assert.deepEqual(claimed, [17]);
  });
});

describe("counters of reports", () => {
  test("each counter of a keyset is accepted once, in any order", () => {
    const seen = createSeenCounters();
    assert.deepEqual(
      [5, 3, 4, 3, 5].map((ctr) => seen.claim("one", ctr, now)),
      [true, true, true, false, false],
    );
    assert.equal(seen.claim("two", 3, now), true);
  });

  test("missing counters in between are counted", () => {
    const seen = createSeenCounters();
    assert.equal(seen.missing(), 0);
    for (const ctr of [10, 12, 15]) seen.claim("one", ctr, now);
    assert.equal(seen.missing(), 3);
    seen.claim("one", 11, now);
    assert.equal(seen.missing(), 2);
    for (const ctr of [1, 3]) seen.claim("two", ctr, now + 1);
    assert.equal(seen.missing(), 3);
    seen.forget(now);
    assert.equal(seen.missing(), 1);
  });

  test("counters of an expired keyset are dropped", () => {
    const seen = createSeenCounters();
    seen.claim("one", 1, now);
    seen.claim("two", 1, now + 1);
    seen.forget(now);
    assert.equal(seen.claim("one", 1, now), true);
    assert.equal(seen.claim("two", 1, now + 1), false);
  });
});
