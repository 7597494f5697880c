/** The tools and prompts that the shipped plugins offer: `gateway_batch`, those about the deployment, and prompts. */
import assert from "node:assert/strict";
import { after, describe, it, test } from "node:test";
import type { ToolsHooks } from "sluice-gateway/plugin";
import {
  toolFailure,
  type ToolOutcome,
  type Evidence,
  type ModelEntry,
  type Networks,
  type Quote,
  type QuoteFailure,
  type Prompt,
  type PromptResult,
} from "sluice-gateway/services";
import { testTools } from "../../../plugins/contracts/testing.ts";
import gatewayBatch from "../../../plugins/tools/gateway-batch/index.ts";
import { caller, settled, tool, type Caller } from "./tool-catalogue/fixture.ts";
import platformTools from "../../../plugins/tools/platform-tools/index.ts";
import { fakeHost, keyPrincipal } from "../fakes.ts";
import docsSearch from "../../../plugins/tools/docs-search/index.ts";
import { scriptedTools } from "../ledger/ledger-tools/chain.ts";
import { address } from "../wrong-inputs.ts";

const raw = '{"n":12345678901234567890,"n":1.0}';
const large = `"${"x".repeat(13 * 1024 * 1024)}"`;
const others = [
  tool(),
  tool({ name: "guarded", capability: "docs:read" }),
  tool({ name: "strict", inputSchema: { type: "object", required: ["a"] } }),
  tool({ name: "fails", call: () => toolFailure("GATEWAY_NOT_FOUND", 'no "such" block') }),
  tool({ name: "writes", write: true }),
  tool({ name: "raw", call: () => ({ ok: true, json: raw }) }),
  tool({ name: "hanging", call: () => new Promise(() => {}) }),
  tool({ name: "large", call: () => ({ ok: true, json: large }) }),
];

const tested = await testTools({
  ...gatewayBatch,
  async start(options: object, host): Promise<ToolsHooks> {
    const { tools } = await gatewayBatch.start(options, host);
    return { tools: [...others, ...tools] };
  },
});
after(() => tested[Symbol.asyncDispose]());

const batch = async (input: object, by: Caller = caller()): Promise<ToolOutcome> =>
  tested.catalogue.call("gateway_batch", input, by);
const item = (name: string, params: object = {}) => ({ tool: name, params });
const codeOf = (outcome: ToolOutcome): string => (outcome.ok ? "ok" : outcome.code);
function contentOf(outcome: ToolOutcome): unknown {
  assert(outcome.ok, JSON.stringify(outcome));
  return JSON.parse(outcome.json);
}

describe("gateway_batch", () => {
  it("inserts results unchanged", async () => {
    const outcome = await batch({ calls: [item("raw")] });
    assert.equal(outcome.ok && outcome.json, `[{"tool":"raw","content":${raw},"usedCUMilli":100}]`);
  });

  it("accepts 20 calls and refuses 21, whatever they are", async () => {
    const of = (n: number, one: unknown = item("echo")) => ({
      calls: Array.from({ length: n }, () => one),
    });
    const outcome = await batch(of(20));
    assert.equal(outcome.ok && outcome.usedCUMilli, 2000);
    for (const input of [
      of(21),
      of(21, null),
      of(1000),
      of(21, item("writes")),
      { ...of(21), other: 1 },
    ]) {
      const by = caller();
      assert.equal(codeOf(await batch(input, by)), "GATEWAY_BATCH_TOO_LARGE");
      assert.deepEqual(by.charge.log, []);
    }
  });

  it("refuses a write tool at any position before anything runs", async () => {
    for (const calls of [
      [item("echo"), item("writes")],
      [item("writes"), item("echo")],
      [item("writes", { confirmation_token: "x" })],
    ]) {
      const by = caller();
      assert.equal(codeOf(await batch({ calls }, by)), "GATEWAY_WRITE_IN_BATCH");
      assert.deepEqual(by.charge.log, ["open 0", "release 0"]);
    }
  });

  it("reports progress after each call", async () => {
    const reported: unknown[] = [];
    const by = caller({ progress: (done, total) => void reported.push([done, total]) });
    await batch({ calls: [item("echo"), item("fails")] }, by);
    assert.deepEqual(reported, [
      [1, 2],
      [2, 2],
    ]);
  });

  it("ends before its time limit and reports the completed calls", async () => {
    const by = caller();
    const calls = [item("echo"), item("hanging"), item("echo")];
    const calling = batch({ calls }, by);
    await settled();
    tested.clock.advance(29_000);
    const outcome = await calling;
    const late = "GATEWAY_TOOL_EXECUTION_ERROR: the batch ran out of time";
    assert.deepEqual(contentOf(outcome), [
      { tool: "echo", content: {}, usedCUMilli: 100 },
      { tool: "hanging", error: late, usedCUMilli: 0 },
      { tool: "echo", error: late, usedCUMilli: 0 },
    ]);
    assert.equal(by.charge.usedMilliCu, 100);
  });

  it("begins no further call once its results are too large", async () => {
    const calls = [item("large"), item("large"), item("large")];
    const outcome = await batch({ calls });
    assert(outcome.ok);
    assert.equal(outcome.usedCUMilli, 200);
    assert.match(outcome.json.slice(-150), /GATEWAY_TOOL_EXECUTION_ERROR: not run/);
  });
});

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
  const platform = await testTools(platformTools, {
    options: evidence && { evidence: { kind: "tdx", binding } },
    services: { attestation },
  });
  const quote = async (input = {}, by = able()): Promise<ToolOutcome> =>
    platform.catalogue.call("platform_getAttestationQuote", input, by);
  return Object.assign(platform, { quote });
}

const able = () => caller({ capabilities: ["platform:read"] });
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
    await using platform = await testTools(platformTools, { services: { networks } });
    const all = await platform.catalogue.call("platform_listModels", {}, able());
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
    await platform.catalogue.call("platform_listModels", { network: "confidential-alpha" }, able());
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

const context = { principal: keyPrincipal({}), dialogue: undefined };

function textOf(got: PromptResult): string {
  assert(got.ok, JSON.stringify(got));
  assert.deepEqual(
    got.messages.map(({ role, content }) => [role, content.type]),
    [["user", "text"]],
  );
  return String(got.messages[0]?.content["text"]);
}

function named(prompts: readonly Prompt[], name: string): Prompt {
  const found = prompts.find((prompt) => prompt.name === name);
  assert(found !== undefined);
  return found;
}

const toolsIn = (text: string): string[] => text.match(/\b(?:ledger|docs)_\w+/g) ?? [];

test("a block is selected by height or hash, and anything else is refused", async () => {
  const { prompts, catalogue } = await scriptedTools();
  const prompt = named(prompts, "ledger_explainBlock");
  assert.equal(prompt.capability, "ledger:read");
  const hash = `0x${"aB".repeat(32)}`;
  for (const [block, input] of [
    ["0", '{"height":0}'],
    [" 12345 ", '{"height":12345}'],
    [hash, `{"hash":"${hash}"}`],
  ] as const) {
    const text = textOf(await prompt.get({ block }, context));
    assert.ok(text.includes(`ledger_getBlockDecoded ${input}`), text);
    for (const name of toolsIn(text)) {
      assert.ok(
        catalogue.list.some((known) => known.name === name),
        name,
      );
    }
  }
  for (const block of ["", "latest", "-1", "1.5", "1e3", "0x12", hash.slice(0, -1), `${hash}0`]) {
    const got = await prompt.get({ block }, context);
    assert.equal(got.ok ? "ok" : got.code, "GATEWAY_INVALID_PARAMS", block);
  }
});

test("an account is selected by an address of the chain", async () => {
  const { prompts } = await scriptedTools();
  const prompt = named(prompts, "ledger_explainAccount");
  const text = textOf(await prompt.get({ address }, context));
  assert.ok(text.includes(address));
  assert.deepEqual(toolsIn(text), ["ledger_getAccount", "ledger_getChainStats"]);
  for (const wrong of ["", "x", `${address}x`]) {
    const got = await prompt.get({ address: wrong }, context);
    assert.equal(got.ok ? "ok" : got.code, "GATEWAY_INVALID_PARAMS", wrong);
  }
});

test("the prompt for a question explains how to answer it from the documentation", async () => {
  await using search = await testTools(docsSearch, { options: { own: false } });
  const prompt = named(search.catalogue.prompts, "docs_answer");
  assert.equal(prompt.capability, "docs:read");
  const text = textOf(await prompt.get({ question: "What is lag?" }, context));
  assert.deepEqual(toolsIn(text), ["docs_search"]);
  assert.ok(text.endsWith("\nWhat is lag?"));
});
