/** The ledger tools, through the catalogue of tools: their requests to the node, their results, and their errors when the node gives no answer. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CallSummary } from "sluice-gateway/services";
import { hash } from "../ledger/fixture.ts";
import { toolCaller } from "../../tools/tool-catalogue/fixture.ts";
import {
  decoded,
  failureOf,
  resultOf,
  scriptedTools,
  undecoded,
  type Said,
  type ScriptedTools,
  type ToolsScript,
} from "./chain.ts";
import { address } from "../../wrong-inputs.ts";

const header = (number: string, more = ""): string =>
  `{"parentHash":"${hash(6)}","number":"${number}","stateRoot":"0xaa","extrinsicsRoot":"0xbb","digest":{"logs":["0x06","0x05"]}${more}}`;
const blockResult = (number: string, extrinsics = '["0x2804","0x84"]'): string =>
  `{"block":{"header":${header(number)},"extrinsics":${extrinsics}},"justifications":[[[70,82],[1,2]]]}`;
const block = { header: JSON.parse(header("0x7")), extrinsics: ["0x2804", "0x84"] };

const notFound = ["GATEWAY_NOT_FOUND", "there is no such block"];
const execution = (message: string): string[] => ["GATEWAY_TOOL_EXECUTION_ERROR", message];
const nodeError = execution("the node answered with an error");
const nonsense = execution("the node's answer could not be read");
const unknownBlockError: Said = {
  error: '{"code":4003,"message":"Client error: UnknownBlock: Header was not found: 0x07"}',
};

/** Heights by the hash hash(n); block 7 exists. */
const node: Readonly<Record<string, Said>> = {
  "chain_getBlockHash [7]": `"${hash(7)}"`,
  "chain_getBlockHash [0]": `"${hash(100)}"`,
  chain_getBlockHash: "null",
  [`chain_getBlock ["${hash(7)}"]`]: blockResult("0x7"),
  chain_getBlock: "null",
  [`chain_getHeader ["${hash(7)}"]`]: header("0x7"),
  chain_getHeader: "null",
};

async function failing(
  script: ToolsScript,
  tool: string,
  input: unknown,
): Promise<readonly [string, string]> {
  const tools = await scriptedTools(script);
  const caller = toolCaller();
  const failed = failureOf(await tools.call(tool, input, caller));
  assert.deepEqual(caller.charged, []);
  assert.equal(caller.open(), 0);
  return failed;
}

describe("the ledger tools", () => {
  it("are those of the specification, with its prices", async () => {
    const { catalogue } = await scriptedTools();
    assert.deepEqual(
      catalogue.list.map(({ name, estimatedCUMilli, estimatedCUVaries }) => [
        name,
        estimatedCUMilli,
        estimatedCUVaries,
      ]),
      [
        ["ledger_getBlock", 1000, false],
        ["ledger_getBlockDecoded", 2000, false],
        ["ledger_getEvents", 1500, false],
        ["ledger_getHealth", 100, false],
        ["ledger_getNodeInfo", 100, false],
        ["ledger_getChainStats", 500, false],
        ["ledger_getStorage", 200, false],
        ["ledger_queryStorage", 200, true],
        ["ledger_getAccount", 500, false],
        ["ledger_rpc", 1000, false],
        ["ledger_listMethods", 100, false],
      ],
    );
    for (const entry of catalogue.list) {
      assert.equal(entry.write, false);
      assert.equal(entry.capability, "ledger:read");
      assert.equal(entry.annotations.readOnlyHint, true);
      assert.notEqual(entry.annotations.title, undefined);
    }
  });

  it("write only if that is enabled", async () => {
    const { catalogue } = await scriptedTools({ options: { write: true } });
    assert.equal(catalogue.list.length, 12);
    const entry = catalogue.list.at(-1);
    assert.equal(entry?.name, "ledger_submitExtrinsic");
    assert.equal(entry.write, true);
    assert.equal(entry.capability, "ledger:write");
    assert.equal(entry.estimatedCUMilli, 10_000);
    assert.deepEqual(Object.keys(entry.inputSchema["properties"] ?? {}), [
      "extrinsic",
      "confirmation_token",
    ]);
    assert.equal(entry.annotations.readOnlyHint, false);
  });

  it("work although the whitelist lacks the methods that they need", async () => {
    const off = ["chain_getBlock", "chain_getBlockHash", "chain_getHeader", "system_health"];
    const methods = Object.fromEntries(off.map((name) => [name, false as const]));
    const health = '{"peers":1,"isSyncing":false,"shouldHavePeers":true}';
    const tools = await scriptedTools({
      node: { ...node, system_health: health },
      upstream: { methods },
    });
    assert.deepEqual(resultOf(await tools.call("ledger_getBlock", { height: 7 })), { block });
    assert.deepEqual(resultOf(await tools.call("ledger_getHealth", {})), JSON.parse(health));
    for (const method of off) {
      const [code] = failureOf(await tools.call("ledger_rpc", { method }));
      assert.equal(code, "GATEWAY_INVALID_PARAMS");
    }
  });
});

describe("ledger_getBlock", () => {
  it("finds a block by height, then by its hash; without justifications", async () => {
    const tools = await scriptedTools({ node });
    const caller = toolCaller();
    const result = resultOf(await tools.call("ledger_getBlock", { height: 7 }, caller));
    assert.deepEqual(result, { block });
    assert.deepEqual(tools.asked, ["chain_getBlockHash [7]", `chain_getBlock ["${hash(7)}"]`]);
    assert.deepEqual(caller.charged, ["ledger_getBlock 1000"]);
  });

  it("keeps the extrinsics as the node wrote them, and its number", async () => {
    const extrinsics = ' [ "0x00" ,\n"0xFF" ] ';
    const tools = await scriptedTools({
      node: { chain_getBlock: blockResult("0x00000007", extrinsics) },
    });
    const outcome = await tools.call("ledger_getBlock", { hash: hash(7) });
    assert(outcome.ok);
    assert(outcome.json.endsWith(`,"extrinsics":${extrinsics.trim()}}}`), outcome.json);
    assert(outcome.json.includes('"number":"0x00000007"'), outcome.json);
  });

  it("drops members that the specification's header does not have", async () => {
    const result = blockResult("0x7").replace('"digest"', '"extra":1,"digest"');
    const tools = await scriptedTools({ node: { chain_getBlock: result } });
    assert.deepEqual(resultOf(await tools.call("ledger_getBlock", { hash: hash(7) })), { block });
  });

  it("does not ask the node for a height that no block can have", async () => {
    const tools = await scriptedTools({ node });
    for (const height of [2 ** 32, Number.MAX_SAFE_INTEGER, 1e300]) {
      const failed = failureOf(await tools.call("ledger_getBlock", { height }));
      assert.deepEqual(failed, notFound);
    }
    assert.deepEqual(tools.asked, []);
  });

  it("accepts genesis by its hash, but not by another hash, for which chopsticks answers the same", async () => {
    const first = {
      ...node,
      chain_getBlock: blockResult("0x00000000"),
      "chain_getBlockHash [1]": `"${hash(1)}"`,
      [`chain_getHeader ["${hash(1)}"]`]: header("0x1").replace(hash(6), hash(100)),
      // chopsticks treats the last unknown hash as that of block 0.
      "chain_getBlockHash [0]": `"${hash(8)}"`,
    };
    const tools = await scriptedTools({ node: first });
    const found = await tools.call("ledger_getBlock", { hash: hash(100) });
    assert.equal(found.ok, true);
    assert.deepEqual(failureOf(await tools.call("ledger_getBlock", { hash: hash(8) })), notFound);
  });

  const wrongAnswers: readonly (readonly [string, Said, readonly string[]])[] = [
    ["an error", { error: '{"code":-1,"message":"a secret of the node"}' }, nodeError],
    ["an error without a code", { error: '{"message":"wasm trap"}' }, nodeError],
    ["nothing", { failed: "unreachable" }, execution("no node answered")],
    ["nothing in time", { failed: "timeout" }, execution("the node did not answer in time")],
    ["garbage", { failed: "garbage" }, nonsense],
    ["a number", "1", nonsense],
    ["an empty object", "{}", nonsense],
    ["a block of another kind", '{"block":{"header":null,"extrinsics":[]}}', nonsense],
    ["a header without digest", blockResult("0x7").replace("digest", "digests"), nonsense],
    ["logs that are no strings", blockResult("0x7").replace('["0x06","0x05"]', "[1]"), nonsense],
    ["extrinsics that are no list", blockResult("0x7", "null"), nonsense],
  ];
  for (const [what, said, failure] of wrongAnswers) {
    it(`answers ${failure[1]} when the node answers ${what}`, async () => {
      const script = { node: { ...node, [`chain_getBlock ["${hash(7)}"]`]: said } };
      assert.deepEqual(await failing(script, "ledger_getBlock", { height: 7 }), failure);
      assert.deepEqual(await failing(script, "ledger_getBlock", { hash: hash(7) }), failure);
    });
  }

  it("returns the same error if the node does not know the hash", async () => {
    const say = (said: Said): ToolsScript => ({ node: { chain_getBlockHash: said } });
    const input = { height: 7 };
    assert.deepEqual(await failing(say({ error: "{}" }), "ledger_getBlock", input), nodeError);
    for (const text of ['"0x07"', "7", `["${hash(7)}"]`, `"${hash(7)}\\""`]) {
      assert.deepEqual(await failing(say(text), "ledger_getBlock", input), nonsense);
    }
  });
});

describe("ledger_getBlockDecoded", () => {
  const decoder = { extrinsics: decoded('[{"index":0}]'), events: decoded('[{"index":1}]') };

  const failures = [
    ["unknownBlock", ["GATEWAY_NOT_FOUND", "no node keeps the state of that block"]],
    ["undecodable", execution("the node's answer does not match its metadata")],
    ["unreachable", execution("no node answered")],
    ["timeout", execution("the node did not answer in time")],
    ["busy", ["GATEWAY_SERVICE_UNAVAILABLE", "too many blocks are being decoded"]],
    ["aborted", execution("the node did not answer in time")],
  ] as const;
  for (const [reason, failure] of failures) {
    it(`reports why it cannot be decoded: ${reason}`, async () => {
      for (const part of ["extrinsics", "events"]) {
        const script = { node, decoder: { ...decoder, [part]: undecoded(reason) } };
        assert.deepEqual(await failing(script, "ledger_getBlockDecoded", { height: 7 }), failure);
      }
    });
  }
});

describe("ledger_getEvents", () => {
  const blockHash = hash(7);

  it("distinguishes an unknown block from one whose state was pruned", async () => {
    const script = { node, decoder: { events: undecoded("unknownBlock") } };
    const input = { blockHash: hash(8) };
    assert.deepEqual(await failing(script, "ledger_getEvents", input), notFound);
    const pruned = ["GATEWAY_NOT_FOUND", "no node keeps the state of that block"];
    assert.deepEqual(await failing(script, "ledger_getEvents", { blockHash }), pruned);
  });
});

describe("ledger_getHealth", () => {
  it("returns three members, whatever else the node sends", async () => {
    const system_health = '{"isSyncing":true,"peers":12,"shouldHavePeers":true,"secret":1}';
    const tools = await scriptedTools({ node: { system_health } });
    const outcome = await tools.call("ledger_getHealth", {});
    assert.deepEqual(resultOf(outcome), { peers: 12, isSyncing: true, shouldHavePeers: true });
    assert(outcome.ok && outcome.usedCUMilli === 100);
  });

  it("does not add members that the node did not send", async () => {
    for (const system_health of ["null", "[]", "{}", '{"peers":"1"}', '{"peers":1}']) {
      const failed = await failing({ node: { system_health } }, "ledger_getHealth", {});
      assert.deepEqual(failed, nonsense);
    }
    assert.deepEqual(await failing({}, "ledger_getHealth", {}), nodeError);
  });
});

describe("ledger_getNodeInfo", () => {
  const info = { system_chain: '"Test"', system_name: '"Node é"', system_version: '"1.2.3-x"' };

  it("returns the three names, and fails if one is missing", async () => {
    const tools = await scriptedTools({ node: info });
    const result = resultOf(await tools.call("ledger_getNodeInfo", {}));
    assert.deepEqual(result, { chain: "Test", name: "Node é", version: "1.2.3-x" });
    for (const name of Object.keys(info)) {
      const say = (said: Said): ToolsScript => ({ node: { ...info, [name]: said } });
      assert.deepEqual(await failing(say("1"), "ledger_getNodeInfo", {}), nonsense);
      const gone = await failing(say({ failed: "unreachable" }), "ledger_getNodeInfo", {});
      assert.deepEqual(gone, execution("no node answered"));
    }
  });
});

describe("ledger_getChainStats", () => {
  const stats = {
    system_chain: '"Test"',
    system_chainType: '"Live"',
    chain_getFinalizedHead: `"${hash(7)}"`,
    [`chain_getHeader ["${hash(7)}"]`]: header("0x00000007"),
    chain_getHeader: header("0x9"),
    system_health: '{"peers":3,"isSyncing":false,"shouldHavePeers":true}',
    system_properties: '{"tokenDecimals":12,"tokenSymbol":"UNIT","ss58Format":0,"isEthereum":true}',
  };
  const statsOf = async (more: Readonly<Record<string, Said>>): Promise<unknown> => {
    const tools = await scriptedTools({ node: { ...stats, ...more } });
    return resultOf(await tools.call("ledger_getChainStats", {}));
  };
  const whole = {
    chain: "Test",
    chainType: "Live",
    finalizedHash: hash(7),
    finalizedNumber: 7,
    latestNumber: 9,
    health: { peers: 3, isSyncing: false, shouldHavePeers: true },
    properties: { tokenDecimals: 12, tokenSymbol: "UNIT", ss58Format: 0, isEthereum: true },
  };

  it("if the chain type is an object, uses its only key", async () => {
    const custom = { ...whole, chainType: "Custom" };
    assert.deepEqual(await statsOf({ system_chainType: '{"Custom":"devnet-7"}' }), custom);
  });

  const none = { tokenDecimals: 0, tokenSymbol: "", ss58Format: 42, isEthereum: false };
  const properties: readonly (readonly [string, object])[] = [
    ["{}", none],
    ["null", none],
    ['{"tokenDecimals":[18,6],"tokenSymbol":["A","B"]}', { tokenDecimals: 18, tokenSymbol: "A" }],
    ['{"tokenDecimals":[],"tokenSymbol":[],"ss58Format":null}', none],
    ['{"tokenDecimals":"12","tokenSymbol":5,"ss58Format":-1,"isEthereum":"yes"}', none],
    [
      `{ "genesis_state" : "0x${"ab".repeat(200_000)}\\"\\\\" , "genesis" : [{"a":["}"]}],\n"tokenSymbol" : "NIGHT" }`,
      { tokenSymbol: "NIGHT" },
    ],
  ];
  for (const [system_properties, expected] of properties) {
    it(`reads the properties ${system_properties.slice(0, 60)}`, async () => {
      const wanted = { ...whole, properties: { ...none, ...expected } };
      assert.deepEqual(await statsOf({ system_properties }), wanted);
    });
  }

  it("does not report a latest block below the finalized one, which another node has", async () => {
    const behind = { ...whole, latestNumber: 7 };
    assert.deepEqual(await statsOf({ chain_getHeader: header("0x5") }), behind);
  });

  it("fails if one call fails or returns an invalid answer", async () => {
    for (const call of Object.keys(stats)) {
      const say = (said: Said): ToolsScript => ({ node: { ...stats, [call]: said } });
      assert.deepEqual(await failing(say("[]"), "ledger_getChainStats", {}), nonsense, call);
      const error = await failing(say({ error: "{}" }), "ledger_getChainStats", {});
      assert.deepEqual(error, nodeError, call);
    }
  });

  it("does not accept a number that a block cannot have", async () => {
    for (const number of ["7", "0x", "0xfffffffffffffffff", "0xffffffffffffffff"]) {
      const script = { node: { ...stats, chain_getHeader: header(number) } };
      assert.deepEqual(await failing(script, "ledger_getChainStats", {}), nonsense, number);
    }
  });
});

describe("ledger_getAccount", () => {
  it("reports why the decoder failed", async () => {
    const fail = (reason: "unknownBlock" | "wrongAccount" | "undecodable", input: object) =>
      failing({ node, decoder: { account: undecoded(reason) } }, "ledger_getAccount", input);
    assert.deepEqual(await fail("unknownBlock", { address, blockHash: hash(8) }), notFound);
    assert.deepEqual(await fail("unknownBlock", { address, blockHash: hash(7) }), [
      "GATEWAY_NOT_FOUND",
      "no node keeps the state of that block",
    ]);
    assert.deepEqual(await fail("wrongAccount", { address }), [
      "GATEWAY_INVALID_PARAMS",
      "address: the account ids of this chain have a different length",
    ]);
    const undecodable = execution("the node's answer does not match its metadata");
    assert.deepEqual(await fail("undecodable", { address }), undecodable);
  });
});

describe("ledger_getStorage", () => {
  it("does not pass on the node's message", async () => {
    const script = { node: { ...node, state_getStorage: unknownBlockError } };
    const input = { key: "0x26", blockHash: hash(7) };
    assert.deepEqual(await failing(script, "ledger_getStorage", input), nodeError);
    assert.deepEqual(await failing(script, "ledger_getStorage", { key: "0x26" }), nodeError);
    const odd = { node: { state_getStorage: "[]" } };
    assert.deepEqual(await failing(odd, "ledger_getStorage", { key: "0x26" }), nonsense);
  });
});

describe("ledger_queryStorage", () => {
  const changes = (...pairs: readonly (readonly [string, string | null])[]): string =>
    JSON.stringify([{ block: hash(7), changes: pairs }]);

  it("returns the values in the order of the keys, as they were sent, each at its price", async () => {
    const state_queryStorageAt = changes(["0x26bb", "0x02"], ["0x26aa", "0x01"], ["0x27", null]);
    const tools = await scriptedTools({ node: { state_queryStorageAt } });
    const keys = ["0x26AA", "0x27", "0x26bb", "0x28", "0x26AA"];
    const caller = toolCaller();
    const result = resultOf(await tools.call("ledger_queryStorage", { keys }, caller));
    assert.deepEqual(result, {
      items: [
        { key: "0x26AA", value: "0x01" },
        { key: "0x27", value: null },
        { key: "0x26bb", value: "0x02" },
        { key: "0x28", value: null },
        { key: "0x26AA", value: "0x01" },
      ],
      blockHash: hash(7),
    });
    // A key that is given twice is read once.
    const read = JSON.stringify(keys.slice(0, 4));
    assert.deepEqual(tools.asked, [`state_queryStorageAt [${read}]`]);
    assert.deepEqual(caller.charged, ["ledger_queryStorage 1000"]);
  });

  it("refuses values that are too large together before it builds a result, and charges them", async () => {
    const value = `0x${"00".repeat(1_500_000)}`;
    const tools = await scriptedTools({ node: { state_queryStorageAt: changes(["0x00", value]) } });
    const caller = toolCaller();
    const keys = Array<string>(100).fill("0x00");
    const outcome = await tools.call("ledger_queryStorage", { keys }, caller);
    assert.equal(outcome.ok, false);
    assert.equal(outcome.message, "the values are too large together");
    assert.deepEqual(caller.charged, ["ledger_queryStorage 20000"]);
    const few = { keys: keys.slice(0, 5) };
    assert.equal((await tools.call("ledger_queryStorage", few)).ok, true);
  });

  it("distinguishes a block without any of them from an unknown block", async () => {
    const script = { node: { ...node, state_queryStorageAt: changes(["0x00", null]) } };
    const tools = await scriptedTools(script);
    const keys = ["0x00"];
    const found = resultOf(await tools.call("ledger_queryStorage", { keys, blockHash: hash(7) }));
    assert.deepEqual(found, { items: [{ key: "0x00", value: null }], blockHash: hash(7) });
    const input = { keys, blockHash: hash(8) };
    assert.deepEqual(await failing(script, "ledger_queryStorage", input), notFound);
    const error = { node: { ...node, state_queryStorageAt: unknownBlockError } };
    assert.deepEqual(await failing(error, "ledger_queryStorage", input), notFound);
    assert.deepEqual(await failing(error, "ledger_queryStorage", { keys }), nodeError);
  });

  it("refuses an invalid answer", async () => {
    const answers = [
      "null",
      "[]",
      "{}",
      '[{"block":1,"changes":[]}]',
      `[{"block":"${hash(7)}"}]`,
      `[{"block":"${hash(7)}","changes":[{}]}]`,
      `[{"block":"${hash(7)}","changes":[[1,"0x"]]}]`,
      `[{"block":"${hash(7)}","changes":[["0x00",1]]}]`,
    ];
    for (const state_queryStorageAt of answers) {
      const script = { node: { state_queryStorageAt } };
      const failed = await failing(script, "ledger_queryStorage", { keys: ["0x00"] });
      assert.deepEqual(failed, nonsense, state_queryStorageAt);
    }
  });
});

describe("ledger_submitExtrinsic", () => {
  const tool = "ledger_submitExtrinsic";
  const input = { extrinsic: "0x0400Ab" };
  const summary: CallSummary = {
    pallet: "Balances",
    method: "transfer_keep_alive",
    signer: "5Alice",
    args: { value: "1000000000000" },
  };
  const decoder = { summary: { ok: true, summary } } as const;
  const options = { write: true } as const;
  const submitting = (said: Said): ToolsScript => ({
    node: { author_submitExtrinsic: said },
    decoder,
    options,
  });

  async function tokenOf(tools: ScriptedTools): Promise<string> {
    const asked = await tools.call(tool, input);
    assert(!asked.ok && asked.code === "GATEWAY_CONFIRMATION_REQUIRED", JSON.stringify(asked));
    // The tests of the catalogue check the token.
    return asked.details?.["confirmation_token"] as string;
  }

  it("does not ask to confirm bytes that are not an extrinsic", async () => {
    const script = { ...submitting("null"), decoder: { summary: undecoded("undecodable") } };
    const tools = await scriptedTools(script);
    assert.deepEqual(failureOf(await tools.call(tool, input)), [
      "GATEWAY_INVALID_PARAMS",
      "extrinsic: does not match the runtime of this chain",
    ]);
    const gone = { ...script, decoder: { summary: undecoded("unreachable") } };
    assert.deepEqual(failureOf(await (await scriptedTools(gone)).call(tool, input)), [
      "GATEWAY_TOOL_EXECUTION_ERROR",
      "no node answered",
    ]);
  });

  const refused = "the node refused the extrinsic";
  const unsure = "the node did not answer: the extrinsic may or may not be in its pool";
  const answers: readonly (readonly [Said, string])[] = [
    [
      { error: '{"code":1010,"message":"Invalid Transaction","data":"secret"}' },
      `${refused}: it is invalid: outdated nonce, wrong signature, unpayable fee, or the like`,
    ],
    [{ error: '{"code":1013,"message":"x"}' }, `${refused}: it is in the pool already`],
    [{ error: '{"code":"1013","message":"secret"}' }, refused],
    [{ error: '{"code":-32602,"message":"secret"}' }, refused],
    [{ error: '{"message":"{\\"invalid\\":{\\"stale\\":null}}"}' }, refused],
    [{ failed: "unreachable" }, unsure],
    [{ failed: "timeout" }, unsure],
    ["null", unsure],
    ['"0x01"', unsure],
    ["{}", unsure],
  ];
  for (const [said, message] of answers) {
    it(`fails with "${message}" and costs nothing if the node answers ${JSON.stringify(said)}`, async () => {
      const tools = await scriptedTools(submitting(said));
      const confirmation_token = await tokenOf(tools);
      const caller = toolCaller();
      const failed = await tools.call(tool, { ...input, confirmation_token }, caller);
      assert.deepEqual(failureOf(failed), ["GATEWAY_TOOL_EXECUTION_ERROR", message]);
      assert.deepEqual(caller.charged, []);
      assert.equal(caller.open(), 0);
      assert.equal(tools.asked.length, 1);
    });
  }
});

describe("ledger_rpc", () => {
  it("returns the node's bytes", async () => {
    const result = '{"z":1.0,"a":123456789012345678901234567890,"s":"\\u00e9é"}';
    const tools = await scriptedTools({ node: { ledger_contractState: result } });
    const caller = toolCaller();
    const input = { method: "ledger_contractState", params: ["00", null, { a: [1] }] };
    const outcome = await tools.call("ledger_rpc", input, caller);
    assert(outcome.ok);
    assert.equal(outcome.json, `{"method":"ledger_contractState","result":${result}}`);
    assert.deepEqual(tools.asked, ['ledger_contractState ["00",null,{"a":[1]}]']);
    assert.deepEqual(caller.charged, ["ledger_rpc 1000"]);
  });

  it("reports that the node failed, without the node's message", async () => {
    const input = { method: "system_chain" };
    const error = { node: { system_chain: { error: '{"code":1,"message":"secret"}' } } };
    assert.deepEqual(await failing(error, "ledger_rpc", input), nodeError);
    const gone: ToolsScript = { node: { system_chain: { failed: "unreachable" } } };
    const none = execution("no node answered");
    assert.deepEqual(await failing(gone, "ledger_rpc", input), none);
  });
});

describe("ledger_listMethods", () => {
  const names = (result: unknown): string[] =>
    (result as { methods: { name: string }[] }).methods.map(({ name }) => name);

  it("lists the whitelist with params and prices", async () => {
    const tools = await scriptedTools({ upstream: { methods: { my_read: { cuMilli: 7 } } } });
    const result = resultOf(await tools.call("ledger_listMethods", {}));
    const { methods } = result as { methods: unknown[] };
    const storage = {
      name: "state_getStorage",
      params: ["storageKey", "blockHash?"],
      cuMilli: 500,
    };
    assert.deepEqual(
      methods.find((method) => (method as { name: string }).name === "state_getStorage"),
      storage,
    );
    assert.deepEqual(methods.at(-1), { name: "my_read", params: [], cuMilli: 7 });
    assert(!names(result).includes("system_health"));
    assert(!names(result).includes("author_submitExtrinsic"));
  });

  it("filters by the beginning of names", async () => {
    const tools = await scriptedTools();
    const list = async (namespace: string): Promise<string[]> =>
      names(resultOf(await tools.call("ledger_listMethods", { namespace })));
    assert.deepEqual(await list("beefy_"), ["beefy_getFinalizedHead"]);
    assert.deepEqual(await list("beefy"), ["beefy_getFinalizedHead"]);
    assert.deepEqual(await list("no_such"), []);
    assert.deepEqual(await list("getFinalizedHead"), []);
    assert.deepEqual(
      (await list("ledger_")).every((name) => name.startsWith("ledger_")),
      true,
    );
    assert((await list("")).length > 40);
  });
});
