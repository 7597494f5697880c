/** Inputs of the shipped tools, wrong in every way they can be wrong: every row of gateway.md, "Tool inputs". */
import { hash } from "./ledger/ledger/fixture.ts";

const schema = "GATEWAY_SCHEMA_VIOLATION";
const params = "GATEWAY_INVALID_PARAMS";

export interface WrongInput {
  readonly tool: string;
  readonly input: unknown;
  readonly code: string;
  /** Path of the violation, or how the message starts. */
  readonly where: string;
}

export const address = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

const wrong = (tool: string, input: unknown, code: string, where: string): WrongInput => ({
  tool,
  input,
  code,
  where,
});

const violations = (tool: string, where: string, ...inputs: readonly unknown[]): WrongInput[] =>
  inputs.map((input) => wrong(tool, input, schema, where));

/** Inputs that are not objects. Every tool must refuse them. */
const noObjects = (tool: string): WrongInput[] => violations(tool, "", null, [], "x", 1, true);

const notHex: readonly unknown[] = [null, 1, true, {}, ["0x00"], "", "00", "0X00", "0xzz", " 0x00"];

function badHashes(tool: string, member: string, others: object = {}): WrongInput[] {
  const given = (value: unknown): object => ({ ...others, [member]: value });
  return [
    ...violations(tool, `/${member}`, ...notHex.map(given)),
    wrong(tool, given(`${hash(1)}0`), params, `${member}: an odd number`),
    ...["0x", "0x00", `${hash(1)}00`].map((value) =>
      wrong(tool, given(value), params, `${member}: a block hash has 32 bytes`),
    ),
  ];
}

function badBlock(tool: string): WrongInput[] {
  const heights = [null, "1", "0x1", 1.5, -1, true, {}, [1], Infinity];
  return [
    wrong(tool, {}, params, "give either"),
    wrong(tool, { height: 1, hash: hash(1) }, params, "give either"),
    ...violations(tool, "/height", ...heights.map((height) => ({ height }))),
    ...badHashes(tool, "hash"),
    ...violations(tool, "/hash", { height: 1, hash: "zz" }),
  ];
}

const keysOf = (...keys: readonly unknown[]): object => ({ keys });

export const wrongLedgerInputs: readonly WrongInput[] = [
  ...[
    "ledger_getBlock",
    "ledger_getBlockDecoded",
    "ledger_getHealth",
    "ledger_getNodeInfo",
    "ledger_getChainStats",
    "ledger_getAccount",
    "ledger_getStorage",
    "ledger_queryStorage",
    "ledger_getEvents",
    "ledger_rpc",
    "ledger_listMethods",
    "ledger_submitExtrinsic",
  ].flatMap(noObjects),
  ...badBlock("ledger_getBlock"),
  ...badBlock("ledger_getBlockDecoded"),
  ...violations("ledger_getHealth", "", { verbose: true }),
  ...violations("ledger_getNodeInfo", "", { verbose: true }),
  ...violations("ledger_getChainStats", "", { verbose: true }),
  ...violations("ledger_getAccount", "", {}),
  ...violations(
    "ledger_getAccount",
    "/address",
    ...[null, 1, {}, [address]].map((given) => ({ address: given })),
  ),
  ...["", "x", `${address}x`, address.replace("Y", "Z")].map((given) =>
    wrong("ledger_getAccount", { address: given }, params, "address: not an SS58 address"),
  ),
  ...badHashes("ledger_getAccount", "blockHash", { address }),
  ...violations("ledger_getStorage", "", {}),
  ...violations("ledger_getStorage", "/key", ...notHex.map((key) => ({ key }))),
  wrong("ledger_getStorage", { key: "0x123" }, params, "key: an odd number"),
  ...badHashes("ledger_getStorage", "blockHash", { key: "0x12" }),
  ...violations("ledger_queryStorage", "", {}),
  ...violations(
    "ledger_queryStorage",
    "/keys",
    ...[null, "0x12", {}, [], Array(101).fill("0x12")].map((keys) => ({ keys })),
  ),
  ...violations("ledger_queryStorage", "/keys/1", ...notHex.map((key) => keysOf("0x12", key))),
  wrong("ledger_queryStorage", keysOf("0x12", "0x1"), params, "keys/1: an odd number"),
  ...badHashes("ledger_queryStorage", "blockHash", { keys: ["0x12"] }),
  ...violations("ledger_getEvents", "", {}),
  ...badHashes("ledger_getEvents", "blockHash"),
  ...violations("ledger_rpc", "", {}),
  ...violations(
    "ledger_rpc",
    "/method",
    ...[null, 1, {}, ["system_chain"]].map((method) => ({ method })),
  ),
  ...violations(
    "ledger_rpc",
    "/params",
    ...[null, {}, "[]", 1].map((given) => ({ method: "system_chain", params: given })),
  ),
  ...["", "chain", "system_health", "author_submitExtrinsic", "__proto__"].map((method) =>
    wrong("ledger_rpc", { method }, params, "method: not a whitelisted"),
  ),
  ...violations(
    "ledger_listMethods",
    "/namespace",
    ...[null, 1, {}, ["state_"]].map((namespace) => ({ namespace })),
  ),
  ...violations("ledger_submitExtrinsic", "", {}, { extrinsic: "0x00", more: 1 }),
  ...violations(
    "ledger_submitExtrinsic",
    "/extrinsic",
    ...notHex.map((extrinsic) => ({ extrinsic })),
  ),
  ...violations("ledger_submitExtrinsic", "/confirmation_token", {
    extrinsic: "0x00",
    confirmation_token: 1,
  }),
  wrong("ledger_submitExtrinsic", { extrinsic: "0x123" }, params, "extrinsic: an odd number"),
];

const digits = (count: number): string => "aF".repeat(count).slice(0, count);
const searches = (limit: unknown): object => ({ query: "x", limit });
const batchOf = (call: unknown): object => ({ calls: [{ tool: "docs_search", params: {} }, call] });
const call = { tool: "docs_search", params: { query: "x" } };

export const otherWrongInputs: readonly WrongInput[] = [
  ...[
    "platform_listModels",
    "platform_getAttestationQuote",
    "docs_search",
    "gateway_batch",
  ].flatMap(noObjects),
  ...violations(
    "platform_listModels",
    "/network",
    ...["", "confidential", "Confidential-classic", null, 1, {}, ["confidential-alpha"]].map(
      (network) => ({ network }),
    ),
  ),
  ...violations("platform_listModels", "", { other: 1 }),
  ...violations(
    "platform_getAttestationQuote",
    "/report_data",
    ...["", digits(127), digits(129), `0x${digits(126)}`, "g".repeat(128), null, 1, {}, []].map(
      (given) => ({ report_data: given }),
    ),
  ),
  ...violations("platform_getAttestationQuote", "", { reportData: digits(128) }),
  ...violations("docs_search", "", {}, { limit: 1 }, { query: "x", offset: 1 }),
  ...violations("docs_search", "/query", ...["", null, 1, {}, ["x"]].map((query) => ({ query }))),
  ...violations("docs_search", "/limit", ...[0, 26, -1, 1.5, "5", null, true].map(searches)),
  ...violations("gateway_batch", "", {}),
  ...violations("gateway_batch", "/calls", ...[null, {}, "x", 1].map((calls) => ({ calls }))),
  ...violations("gateway_batch", "/calls/1", ...[null, 1, "x", [], {}].map(batchOf)),
  ...violations("gateway_batch", "/calls/1", batchOf({ tool: "x" }), batchOf({ params: {} })),
  ...violations(
    "gateway_batch",
    "/calls/1/tool",
    ...[null, 1, {}].map((tool) => batchOf({ tool, params: {} })),
  ),
  ...violations(
    "gateway_batch",
    "/calls/1/params",
    ...[null, 1, "x", []].map((given) => batchOf({ tool: "docs_search", params: given })),
  ),
  ...[Array.from({ length: 21 }, () => call), Array(21).fill(null)].map((calls) =>
    wrong("gateway_batch", { calls }, "GATEWAY_BATCH_TOO_LARGE", "a batch holds at most 20 calls"),
  ),
  wrong(
    "gateway_batch",
    batchOf({ tool: "ledger_submitExtrinsic", params: { extrinsic: "0x00" } }),
    "GATEWAY_WRITE_IN_BATCH",
    "ledger_submitExtrinsic is a write tool",
  ),
  ...["", "Ledger_getBlock", "ledger_getBlock ", "__proto__", "tools.call"].map((tool) =>
    wrong(tool, {}, "GATEWAY_TOOL_NOT_FOUND", "unknown tool"),
  ),
];
