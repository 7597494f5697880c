import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type {
  Attestation,
  Evidence,
  ModelEntry,
  Networks,
  Quote,
  ToolOutcome,
} from "sluice-gateway/services";
import platformTools from "../../../plugins/tools/platform-tools/index.ts";
import { createAttestation } from "../../../plugins/confidential/attestation/attestation.ts";
import { bench, caller, type Bench } from "./tool-catalogue/fixture.ts";
import { fakeHost, noNetworks } from "../fakes.ts";

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

interface Services {
  readonly networks?: Networks;
  readonly evidence?: Evidence;
  readonly binding?: Quote["binding"];
}

async function start({ networks, evidence, binding = "raw" }: Services): Promise<Bench> {
  const { clock, log } = fakeHost();
  const attestation: Attestation = {
    ...createAttestation({ clock, log, simulatedAllowed: false }),
    evidence(source) {
      assert.equal(source, "tdx");
      assert.ok(evidence);
      return evidence;
    },
  };
  const host = fakeHost({}, { attestation, ...(networks && { networks }) });
  const options = evidence && { evidence: { kind: "tdx", binding } as const };
  const { tools } = await platformTools.start(options ?? {}, host);
  return bench(...tools);
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

  it("returns [] without a configured network and costs 0.1 CU", async () => {
    const outcome = await (await start({})).call("platform_listModels", {}, able());
    assert.deepEqual(contentOf(outcome), []);
    assert.equal(outcome.ok && outcome.usedCUMilli, 100);
  });

  it("lists models of all networks, or of one", async () => {
    const asked: (string | undefined)[] = [];
    const networks: Networks = {
      ...noNetworks,
      names: [],
      unread: () => false,
      override: () => Promise.resolve(undefined),
      find: () => undefined,
      models(network) {
        asked.push(network);
        return [classic];
      },
    };
    const b = await start({ networks });
    const all = await b.call("platform_listModels", {}, able());
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
    await b.call("platform_listModels", { network: "confidential-alpha" }, able());
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
    const outcome = await (await start({})).call("platform_getAttestationQuote", {}, by);
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
    const b = await start({ evidence });
    const outcome = await b.call("platform_getAttestationQuote", {}, able());
    assert.deepEqual(contentOf(outcome), quote);
    assert.equal(outcome.ok && outcome.usedCUMilli, 100);
    await b.call("platform_getAttestationQuote", { report_data: "aB".repeat(64) }, able());
    const hashing = await start({ evidence, binding: "hashed" });
    await hashing.call("platform_getAttestationQuote", {}, able());
    assert.deepEqual(asked, [
      [undefined, "raw"],
      [Buffer.alloc(64, 0xab), "raw"],
      [undefined, "hashed"],
    ]);
  });

  for (const [reason, code] of [
    ["unavailable", "GATEWAY_SERVICE_UNAVAILABLE"],
    ["timeout", "GATEWAY_TOOL_EXECUTION_ERROR"],
    ["aborted", "GATEWAY_TOOL_EXECUTION_ERROR"],
    ["reserved", "GATEWAY_INVALID_PARAMS"],
  ] as const) {
    it(`reports the failure of a provider (${reason}) without its message`, async () => {
      const evidence: Evidence = { quote: () => Promise.resolve({ kind: "failed", reason }) };
      const by = able();
      const outcome = await (
        await start({ evidence })
      ).call("platform_getAttestationQuote", {}, by);
      assert.equal(codeOf(outcome), code);
      assert.deepEqual(by.charge.log, ["open 100", "release 100"]);
    });
  }
});
