/** Status documents of networks: any document is read or refused, and whatever is read can be listed and charged. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { createPrice } from "sluice-gateway/services";
import { readModels, readStatus } from "../../../plugins/inference/networks/status-document.ts";
import type { FuzzTarget } from "../target.ts";

const mostly = (usual: unknown): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(usual) }, fc.jsonValue({ maxDepth: 2 }));
const price = fc.oneof(
  fc.constantFrom<unknown>(
    "12",
    "0",
    "0.000000001",
    "100000000000",
    `1${"0".repeat(40)}`,
    "-1",
    12,
    1e300,
  ),
  fc.double().map((value) => (Number.isFinite(value) ? value : String(value))),
  fc.jsonValue(),
);
const classes = fc.record(
  { prompt: price, cached: price, completion: price, reasoning: price },
  { requiredKeys: ["prompt", "completion"] },
);
const coefficient = fc.oneof(
  fc.constantFrom<unknown>(1000, 0, 1_000_000, 1_000_001, -1, 0.5, 1e300, "1000"),
  fc.jsonValue({ maxDepth: 1 }),
);
const worker = fc.record({
  id: fc.oneof(fc.constantFrom("w1", "w2", "__proto__"), mostly("w3")),
  model: mostly("A/B-1"),
  coefficient,
  state: mostly("active"),
  url: fc.oneof(
    fc.webUrl(),
    fc.constantFrom<unknown>(undefined, null, "http://", "file:///etc/passwd"),
    fc.jsonValue(),
  ),
});
const status = fc.record(
  {
    price_per_token_nano: fc.oneof(price, classes),
    workers: fc.oneof(fc.array(worker, { maxLength: 4 }), fc.jsonValue()),
  },
  { requiredKeys: [] },
);
const models = fc.record({
  data: fc.oneof(fc.array(fc.record({ id: mostly("A/B-1") })), fc.jsonValue()),
});
const tokens = fc.constantFrom(0, 1, 16_404, 1_000_000, 2_000_000_000);

export const statusDocuments: FuzzTarget = {
  name: "status-documents",
  async run(random) {
    const documents = fc.oneof(status, models, fc.jsonValue());
    const inputs = fc.tuple(
      documents,
      fc.constantFrom(["http:", "https:"], ["http:", "https:", "ws:", "wss:"]),
      tokens,
    );
    const title = "what is read has names, whole coefficients and a price that stays exact";
    await random.check(title, inputs, 2_000, ([document, protocols, count]) => {
      readModels(document);
      const read = readStatus(document, protocols);
      if (read === undefined) return;
      const ids = read.workers.map(({ id }) => id);
      assert.equal(new Set(ids).size, ids.length, "a worker is listed twice");
      for (const { id, model, coefficient: thousandths, url } of read.workers) {
        assert.ok(id !== "" && model !== "");
        assert.ok(Number.isInteger(thousandths) && thousandths >= 0);
        if (url !== undefined) assert.match(URL.parse(url)?.protocol ?? "", /^(https?|wss?):$/);
        const charged = createPrice({
          network: "alpha",
          ...(read.prices ?? { pricePerTokenNano: "0" }),
          tokenUsdRate: "0.25",
          coefficient: thousandths,
          asOf: "1970-01-01T00:00:00Z",
        }).maxMilliCu(count, count);
        assert.ok(Number.isSafeInteger(charged) && charged >= 0);
      }
    });
  },
};
