/** Arguments that headers repeat (revision 2026-07-28): which ones they are, and what happens if the two differ. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Client, StreamableHTTPClientTransport as Transport } from "@modelcontextprotocol/client";
import { paramHeaders, paramMismatch } from "../../../../plugins/tools/mcp/param-headers.ts";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, stateless, type Parsed } from "../../../e2e/mcp-gateway.ts";

let gateway: TestGateway;
before(async () => {
  const tools = { name: "conformance-fixtures", file: "conformance/fixtures.ts" };
  gateway = await startMcpGateway({ tools });
});
after(() => gateway[Symbol.asyncDispose]());

describe("the headers of a schema", () => {
  it("are those of members that are reached through `properties` alone", () => {
    const text = (header: unknown): object => ({ type: "string", "x-mcp-header": header });
    const schema = {
      type: "object",
      properties: {
        a: text("Region"),
        b: { type: "object", properties: { c: text("x-C"), d: { type: "string" } } },
        e: { type: "array", items: text("Lost") },
        f: { anyOf: [text("Lost")] },
        g: text(1),
        h: true,
      },
      additionalProperties: text("Lost"),
    };
    assert.deepEqual(paramHeaders(schema), [
      { path: ["a"], header: "mcp-param-region" },
      { path: ["b", "c"], header: "mcp-param-x-c" },
    ]);
    for (const none of [undefined, null, true, {}, { properties: [] }]) {
      assert.deepEqual(paramHeaders(none), []);
    }
  });
});

const hello = Buffer.from("é \n").toString("base64");
const table: readonly [value: unknown, header: string | undefined, agrees: boolean][] = [
  ["eu", "eu", true],
  ["eu", "EU", false],
  ["eu", undefined, false],
  ["eu", "", false],
  ["", "", true],
  ["é \n", `=?base64?${hello}?=`, true],
  ["é", `=?base64?${hello}?=`, false],
  ["a", "=?base64?YQ?=", false],
  ["a", "=?base64?Y!==?=", false],
  ["=?base64?YQ==", "=?base64?YQ==", true],
  ["YQ==", "YQ==", true],
  ["42", "42", true],
  [42, "42", true],
  [42, "42.0", true],
  [42, "43", false],
  [42, "", false],
  [0, " ", false],
  [42, "x", false],
  [true, "true", true],
  [true, "True", false],
  [false, "false", true],
  [false, "", false],
  [null, undefined, true],
  [null, "null", false],
  [undefined, undefined, true],
  [undefined, "eu", false],
  // Neither can be in a header, and the schema refuses both.
  [["eu"], "eu", true],
  [{}, "eu", true],
];

describe("an argument and its header", () => {
  const wanted = [{ path: ["deep", "region"], header: "mcp-param-region" }];
  for (const [value, header, agrees] of table) {
    it(`${JSON.stringify(value)} and ${header} ${agrees ? "agree" : "differ"}`, () => {
      const headers = header === undefined ? {} : { "mcp-param-region": header };
      const found = paramMismatch(wanted, headers, { deep: { region: value } });
      assert.equal(found, agrees ? undefined : "mcp-param-region");
    });
  }

  it("are not compared if the input is not an object", () => {
    for (const input of [undefined, null, [], "x", 1, { deep: "x" }]) {
      assert.equal(paramMismatch(wanted, {}, input), undefined);
    }
  });
});

describe("a call", () => {
  const call = (input: object, headers: Record<string, string>, name = "test_custom_headers") =>
    ask(gateway, stateless("tools/call", { name, arguments: input }, { headers }));

  it("runs if its headers match; otherwise it returns 400, -32020 with the name of the header", async () => {
    const input = { region: "eu", shard: 7, inner: { dry: true } };
    const headers = {
      "mcp-param-region": "eu",
      "mcp-param-shard": "7",
      "mcp-param-dry-run": "true",
    };
    const done = await call(input, headers);
    assert.equal(done.status, 200);
    assert.deepEqual(JSON.parse(done.json.result.content[0].text), input);
    for (const [name, wrong] of Object.entries({
      "mcp-param-region": "us",
      "mcp-param-shard": "8",
      "mcp-param-dry-run": "false",
    })) {
      const answer = await call(input, { ...headers, [name]: wrong });
      assert.deepEqual([answer.status, answer.json.error.code], [400, -32020]);
      assert.ok(answer.json.error.message.includes(name), answer.text);
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    }
  });

  it("in a session does not need these headers", async () => {
    const params = { name: "test_custom_headers", arguments: { region: "eu" } };
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params };
    const answer = await ask(gateway, { body });
    assert.equal(answer.json.result.content[0].text, '{"region":"eu"}');
  });

  it("of the official client contains them", async () => {
    const client = new Client(
      { name: "test", version: "1" },
      { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    );
    const requestInit = { headers: { authorization: `Bearer ${gateway.key}` } };
    await client.connect(new Transport(new URL(`${gateway.url}/mcp`), { requestInit }));
    await client.listTools();
    const input = { region: "é", shard: -3, inner: { dry: false } };
    const result: Parsed = await client.callTool({ name: "test_custom_headers", arguments: input });
    assert.deepEqual(JSON.parse(result.content[0].text), input);
    await client.close();
  });
});
