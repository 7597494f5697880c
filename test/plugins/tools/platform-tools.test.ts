/** The tools about the deployment: its models, and its attestation. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type {
  Evidence,
  ModelEntry,
  Networks,
  Quote,
  QuoteFailure,
  ToolOutcome,
} from "sluice-gateway/services";
import { testTools } from "../../../plugins/contracts/testing.ts";
import platformTools from "../../../plugins/tools/platform-tools/index.ts";
import { caller } from "./tool-catalogue/fixture.ts";
import { fakeHost } from "../fakes.ts";

const classic: ModelEntry = {
  network: "confidential-classic",
  modelId: "Acme/Model-1",
  ownedBy: "acme",
  createdAt: 0,
  coefficients: undefined,
  evidence: "none",
  activeWorkers: 2,
  promptPriceCUMilli: 3,
  completionPriceCUMilli: 5,
  cachedPriceCUMilli: 1,
};

async function start(evidence?: Evidence, binding: Quote["binding"] = "raw") {
  const attestation = {
    evidence(source: string): Evidence {
      assert.equal(source, "tdx");
      assert.ok(evidence);
      return evidence;
    },
  };
  const tested = await testTools(platformTools, {
    options: evidence && { evidence: { kind: "tdx", binding } },
    services: { attestation },
  });
  const quote = async (input = {}, by = able()): Promise<ToolOutcome> =>
    tested.catalogue.call("platform_getAttestationQuote", input, by);
  return Object.assign(tested, { quote });
}

const able = () => caller({ capabilities: ["platform:read"] });
const codeOf = (outcome: ToolOutcome): string => (outcome.ok ? "ok" : outcome.code);
function contentOf(outcome: ToolOutcome): unknown {
  assert(outcome.ok);
  return JSON.parse(outcome.json);
}

describe("platform_listModels", () => {
  it("is missing without the service `networks`", async () => {
    const { tools } = await platformTools.start({}, fakeHost({}, { networks: undefined }));
    assert.deepEqual(
      tools.map(({ name }) => name),
      ["platform_getAttestationQuote"],
    );
  });

  it("lists models of all networks, or of one", async () => {
    const asked: (string | undefined)[] = [];
    const networks: Partial<Networks> = {
      models(network) {
        asked.push(network);
        return [classic];
      },
    };
    await using tested = await testTools(platformTools, { services: { networks } });
    const all = await tested.catalogue.call("platform_listModels", {}, able());
    assert.deepEqual(contentOf(all), [
      {
        network: "confidential-classic",
        model_id: "Acme/Model-1",
        active_workers: 2,
        promptPriceCUMilli: 3,
        completionPriceCUMilli: 5,
        cachedPriceCUMilli: 1,
      },
    ]);
    await tested.catalogue.call("platform_listModels", { network: "confidential-alpha" }, able());
    assert.deepEqual(asked, [undefined, "confidential-alpha"]);
  });
});

describe("platform_getAttestationQuote", () => {
  const quote: Quote = {
    quote: "AAEC",
    imageHash: "ab".repeat(32),
    reportData: "cd".repeat(64),
    binding: "raw",
    teeType: "tdx",
    simulated: false,
  };

  it("fails and costs nothing without an evidence provider", async () => {
    const by = able();
    await using b = await start();
    const outcome = await b.quote({}, by);
    assert.equal(codeOf(outcome), "GATEWAY_SERVICE_UNAVAILABLE");
    assert.equal(by.charge.usedMilliCu, undefined);
  });

  it("binds 64 bytes in either case of hex digits, or none, and returns the quote of the provider", async () => {
    const asked: unknown[] = [];
    const evidence: Evidence = {
      quote(reportData, _, binding) {
        asked.push([reportData, binding]);
        return Promise.resolve({ kind: "quote", quote });
      },
    };
    await using b = await start(evidence);
    const outcome = await b.quote();
    assert.deepEqual(contentOf(outcome), quote);
    assert.equal(outcome.ok && outcome.usedCUMilli, 100);
    await b.quote({ report_data: "aB".repeat(64) });
    await using hashing = await start(evidence, "hashed");
    await hashing.quote();
    assert.deepEqual(asked, [
      [undefined, "raw"],
      [Buffer.alloc(64, 0xab), "raw"],
      [undefined, "hashed"],
    ]);
  });

  it("reports the failure of a provider without its message", async () => {
    let reason: QuoteFailure = "unavailable";
    await using b = await start({ quote: () => Promise.resolve({ kind: "failed", reason }) });
    for (const [failure, code] of [
      ["unavailable", "GATEWAY_SERVICE_UNAVAILABLE"],
      ["timeout", "GATEWAY_TOOL_EXECUTION_ERROR"],
      ["aborted", "GATEWAY_TOOL_EXECUTION_ERROR"],
      ["reserved", "GATEWAY_INVALID_PARAMS"],
    ] as const) {
      reason = failure;
      const by = able();
      assert.equal(codeOf(await b.quote({}, by)), code);
      assert.deepEqual(by.charge.log, ["open 100", "release 100"]);
    }
  });
});
