/** Inputs of the ledger tools, wrong in every way they can be wrong. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hash } from "../ledger/fixture.ts";
import { toolCaller } from "../tools/caller.ts";
import { address, scriptedTools } from "./ledger-tools-chain.ts";

const schema = "GATEWAY_SCHEMA_VIOLATION";
const params = "GATEWAY_INVALID_PARAMS";

interface Wrong {
  readonly tool: string;
  readonly input: unknown;
  readonly code: string;
  /** Path of the violation, or how the message starts. */
  readonly where: string;
}

const wrong = (tool: string, input: unknown, code: string, where: string): Wrong => ({
  tool,
  input,
  code,
  where,
});

/** What is no object, for any tool. */
function noObjects(tool: string): Wrong[] {
  return [undefined, null, [], "x", 1, true].map((input) => wrong(tool, input, schema, ""));
}

/** What is not even hex by its form. */
const notHex: readonly unknown[] = [null, 1, true, {}, ["0x00"], "", "00", "0X00", "0xzz", " 0x00"];

/** A member that holds a block's hash. */
function badHashes(tool: string, member: string, others: object = {}): Wrong[] {
  const given = (value: unknown): object => ({ ...others, [member]: value });
  return [
    ...notHex.map((value) => wrong(tool, given(value), schema, `/${member}`)),
    wrong(tool, given(`${hash(1)}0`), params, `${member}: an odd number`),
    ...["0x", "0x00", `${hash(1)}00`].map((value) =>
      wrong(tool, given(value), params, `${member}: a block hash has 32 bytes`),
    ),
  ];
}

function badBlock(tool: string): Wrong[] {
  return [
    wrong(tool, {}, params, "give either"),
    wrong(tool, { height: 1, hash: hash(1) }, params, "give either"),
    ...[null, "1", "0x1", 1.5, -1, true, {}, [1], Infinity, NaN].map((height) =>
      wrong(tool, { height }, schema, "/height"),
    ),
    ...badHashes(tool, "hash"),
    wrong(tool, { height: 1, hash: "zz" }, schema, "/hash"),
  ];
}

function nothingWanted(tool: string): Wrong[] {
  return [wrong(tool, { verbose: true }, schema, "")];
}

const keysOf = (...keys: readonly unknown[]): object => ({ keys });

const cases: readonly Wrong[] = [
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
  ...nothingWanted("ledger_getHealth"),
  ...nothingWanted("ledger_getNodeInfo"),
  ...nothingWanted("ledger_getChainStats"),
  wrong("ledger_getAccount", {}, schema, ""),
  ...[null, 1, {}, [address]].map((given) =>
    wrong("ledger_getAccount", { address: given }, schema, "/address"),
  ),
  ...["", "x", `${address}x`, address.replace("Y", "Z")].map((given) =>
    wrong("ledger_getAccount", { address: given }, params, "address: not an SS58 address"),
  ),
  ...badHashes("ledger_getAccount", "blockHash", { address }),
  wrong("ledger_getStorage", {}, schema, ""),
  ...notHex.map((key) => wrong("ledger_getStorage", { key }, schema, "/key")),
  wrong("ledger_getStorage", { key: "0x123" }, params, "key: an odd number"),
  ...badHashes("ledger_getStorage", "blockHash", { key: "0x12" }),
  wrong("ledger_queryStorage", {}, schema, ""),
  ...[null, "0x12", {}].map((keys) => wrong("ledger_queryStorage", { keys }, schema, "/keys")),
  wrong("ledger_queryStorage", keysOf(), schema, "/keys"),
  wrong("ledger_queryStorage", { keys: Array(101).fill("0x12") }, schema, "/keys"),
  ...notHex.map((key) => wrong("ledger_queryStorage", keysOf("0x12", key), schema, "/keys/1")),
  wrong("ledger_queryStorage", keysOf("0x12", "0x1"), params, "keys/1: an odd number"),
  ...badHashes("ledger_queryStorage", "blockHash", { keys: ["0x12"] }),
  wrong("ledger_getEvents", {}, schema, ""),
  ...badHashes("ledger_getEvents", "blockHash"),
  wrong("ledger_rpc", {}, schema, ""),
  ...[null, 1, {}, ["system_chain"]].map((method) =>
    wrong("ledger_rpc", { method }, schema, "/method"),
  ),
  ...[null, {}, "[]", 1].map((given) =>
    wrong("ledger_rpc", { method: "system_chain", params: given }, schema, "/params"),
  ),
  ...["", "chain", "system_health", "author_submitExtrinsic", "__proto__"].map((method) =>
    wrong("ledger_rpc", { method }, params, "method: not a whitelisted"),
  ),
  ...[null, 1, {}, ["state_"]].map((namespace) =>
    wrong("ledger_listMethods", { namespace }, schema, "/namespace"),
  ),
  wrong("ledger_submitExtrinsic", {}, schema, ""),
  ...notHex.map((extrinsic) =>
    wrong("ledger_submitExtrinsic", { extrinsic }, schema, "/extrinsic"),
  ),
  wrong("ledger_submitExtrinsic", { extrinsic: "0x00", more: 1 }, schema, ""),
  wrong("ledger_submitExtrinsic", { extrinsic: "0x123" }, params, "extrinsic: an odd number"),
];

describe("a wrong input", async () => {
  const tools = await scriptedTools({ options: { write: true } });
  for (const { tool, input, code, where } of cases) {
    it(`${tool} ${text(input)} is ${code} at "${where}", and free`, async () => {
      const caller = toolCaller();
      const outcome = await tools.call(tool, input, caller);
      assert(!outcome.ok);
      assert.equal(outcome.code, code);
      if (code === schema) {
        const violations = outcome.details?.["violations"] as { path: string; reason: string }[];
        assert.equal(violations[0]?.path, where);
        assert.notEqual(violations[0]?.reason, "");
      } else {
        assert(outcome.message.startsWith(where), outcome.message);
      }
      assert.deepEqual(caller.charged, []);
      assert.equal(caller.open(), 0);
      assert.deepEqual(tools.asked, [], "no node is asked");
    });
  }
});

function text(input: unknown): string {
  const json = JSON.stringify(input) ?? "undefined";
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}

describe("members that no tool knows", () => {
  it("are ignored where the specification does not forbid them", async () => {
    const tools = await scriptedTools({ node: { state_getStorage: '"0x01"' } });
    const outcome = await tools.call("ledger_getStorage", { key: "0x12", note: "mine" });
    assert.equal(outcome.ok, true);
  });
});

describe("a key without the capability", () => {
  it("calls no tool", async () => {
    const tools = await scriptedTools({ options: { write: true } });
    for (const { name, write } of tools.catalogue.list) {
      const capabilities = write ? (["ledger:read"] as const) : (["ledger:write"] as const);
      const outcome = await tools.call(name, {}, toolCaller({ capabilities }));
      assert.equal(outcome.ok ? "ok" : outcome.code, "GATEWAY_PERMISSION_DENIED", name);
    }
    assert.deepEqual(tools.asked, []);
  });
});
