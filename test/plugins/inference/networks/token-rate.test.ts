/** Tests of how a rate is found in a document. chat/rate.test.ts has the tests of its age. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openTokenRate } from "../../../../plugins/inference/networks/token-rate.ts";
import { observed } from "./observed-services.ts";
import { startWorker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };
const everyMs = 30_000;
const day = 86_400_000;

test("a rate is fixed, also at 0, or undefined if none is configured", async () => {
  for (const usd of ["0.25", "0", undefined]) {
    const config = usd === undefined ? undefined : ({ kind: "fixed", usd } as const);
    const rate = openTokenRate(config, { ...observed(), name: "n" });
    await rate.firstReading;
    assert.equal(rate.usd, usd);
    rate.close();
  }
});

const document = {
  price: "0.25",
  data: { usd: 1.5, list: [{ at: "0.5" }, 2], small: 1.5e-7, zero: 0 },
  "a/b": { "m~n": "3", "": "4", "~1": "5" },
  "0": "6",
};

const readings = [
  ["/price", document, "0.25"],
  ["/data/usd", document, "1.5"],
  ["/data/list/0/at", document, "0.5"],
  ["/data/list/1", document, "2"],
  ["/data/small", document, "0.00000015"],
  ["/a~1b/m~0n", document, "3"],
  ["/a~1b/", document, "4"],
  ["/a~1b/~01", document, "5"],
  ["/0", document, "6"],
  ["", "7.5", "7.5"],
  ["/0", [0.5], "0.5"],
  ["/data/list/2", document, undefined],
  ["/data/list/-", document, undefined],
  ["/data/list/01", document, undefined],
  ["/data/list/length", document, undefined],
  ["/data/list/at", document, undefined],
  ["/data", document, undefined],
  ["/missing/price", document, undefined],
  ["/price/0", document, undefined],
  ["/constructor/name", document, undefined],
  ["/__proto__", document, undefined],
  ["", document, undefined],
  ["/data/zero", document, undefined],
  ["/price", { price: "0.000" }, undefined],
  ["/price", { price: "0.0001" }, "0.0001"],
  ["/price", { price: -0.25 }, undefined],
  ["/price", { price: "-0.25" }, undefined],
  ["/price", { price: 1e300 }, undefined],
  ["/price", { price: "1e3" }, undefined],
  ["/price", { price: null }, undefined],
  ["/price", { price: "" }, undefined],
  ["/price", { price: true }, undefined],
] as const;

test("a pointer finds a decimal above 0, or there is no rate", inTime, async () => {
  await using server = await startWorker();
  const url = `${server.url}/rate`;
  for (const [pointer, document_, usd] of readings) {
    server.documents.set("/rate", JSON.stringify(document_));
    const rate = openTokenRate(
      { kind: "polled", url, pointer, everyMs, maxAgeMs: day },
      { ...observed(), name: "n" },
    );
    await rate.firstReading;
    assert.equal(rate.usd, usd, `${pointer} of ${JSON.stringify(document_)}`);
    rate.close();
  }
});
