/** POST /rpc end to end: valid requests, malformed ones, and their costs. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { seen } from "./tools-plugin.ts";
import { call, send, startToolsGateway, toolNames, type ToolsGateway } from "./tools-gateway.ts";

let gateway: ToolsGateway;
before(async () => {
  gateway = await startToolsGateway();
});
after(() => gateway[Symbol.asyncDispose]());

const error = (id: string, code: number, message: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message })}}`;
const result = (id: string, content: string, used: number): string =>
  `{"jsonrpc":"2.0","id":${id},"result":{"content":${content},"usedCUMilli":${used}}}`;

const echoed = result("1", '{"text":"x"}', 100);
const echo = call("echo", { text: "x" });

interface RpcResponse {
  readonly id: unknown;
  readonly error: {
    readonly code: number;
    readonly message: string;
    readonly data?: { readonly errorCode: string; readonly details?: Record<string, unknown> };
  };
}
function errorOf(json: unknown): RpcResponse["error"] {
  return (json as RpcResponse).error;
}

describe("a request", () => {
  it("calls a tool; its result is inserted unchanged, and its cost is in the result and in the header", async () => {
    const answer = await send(gateway, echo);
    assert.deepEqual([answer.status, answer.text], [200, echoed]);
    assert.equal(answer.headers["x-used-cu-milli"], "100");
    assert.equal(answer.headers["content-type"], "application/json");
    const raw = await send(gateway, call("raw"));
    assert.equal(raw.text, result("1", '{"n":12345678901234567890, "n":1.0,"s":"\\u0041"}', 100));
  });

  it("gets its id back byte for byte", async () => {
    const ids = [
      "0",
      "-0",
      "1.50",
      "1e400",
      "-12345678901234567890123456789012345678901234567890",
      '"a"',
      '""',
      '"\\u0041\\/\\n"',
      '"é😀"',
      "null",
    ];
    for (const id of ids) {
      const answer = await send(gateway, call("echo", { text: "x" }, id));
      assert.equal(answer.text, result(id, '{"text":"x"}', 100));
      const unknown = await send(gateway, `{"id":${id},"jsonrpc":"2.0","method":"x"}`);
      assert.equal(unknown.text, error(id, -32601, "Method not found"));
    }
  });

  it("lists the tools with their schemas, the same as discovery without them", async () => {
    const answer = await send(gateway, '{"jsonrpc":"2.0","id":"l","method":"tools.list"}');
    const { id, result: listed } = answer.json as {
      id: string;
      result: { tools: { name: string; inputSchema?: object }[] };
    };
    assert.equal(id, "l");
    assert.equal(answer.headers["x-used-cu-milli"], "0");
    assert.deepEqual(
      listed.tools.map(({ name }) => name),
      [...toolNames, "platform_listModels", "platform_getAttestationQuote", "gateway_batch"],
    );
    for (const entry of listed.tools) {
      assert.deepEqual(Object.keys(entry), [
        "name",
        "description",
        "inputSchema",
        "estimatedCUMilli",
        "estimatedCUVaries",
      ]);
    }
    const discovered = await send(gateway, undefined, {
      method: "GET",
      path: "/.well-known/mcp",
      key: null,
    });
    const { tools } = discovered.json as { tools: object[] };
    assert.deepEqual(
      tools,
      listed.tools.map(({ inputSchema: _, ...shown }) => shown),
    );
  });

  it("may have empty params for tools.list and no params for a tool without input", async () => {
    for (const params of ["{}", "[]", "null", '{"cursor":1}']) {
      const body = `{"jsonrpc":"2.0","id":1,"method":"tools.list","params":${params}}`;
      assert.match(
        (await send(gateway, body)).text,
        /^\{"jsonrpc":"2.0","id":1,"result":\{"tools":\[/,
      );
    }
    const body =
      '{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"tool":"platform_listModels"}}';
    assert.equal((await send(gateway, body)).text, result("1", "[]", 100));
  });
});

describe("a malformed request", () => {
  const parse = error("null", -32700, "Parse error");
  const invalid = (id: string): string => error(id, -32600, "Invalid Request");
  const table: readonly [string | Buffer, string][] = [
    ["", parse],
    [`[${echo},]`, parse],
    [Buffer.from([0x22, 0xff, 0x22]), parse],
    ["[]", invalid("null")],
    ['{"jsonrpc":"2.0","id":1}', invalid("1")],
    ['{"jsonrpc":"2.0","id":1,"method":"tools.list","params":1}', invalid("1")],
    ['{"jsonrpc":"2.0","id":1,"method":"x","method":"tools.list"}', invalid("1")],
    ['{"jsonrpc":"2.0","id":1,"method":""}', error("1", -32601, "Method not found")],
    ['{"jsonrpc":"2.0","id":1,"method":"tools/list"}', error("1", -32601, "Method not found")],
    ['{"jsonrpc":"2.0","id":1,"method":"__proto__"}', error("1", -32601, "Method not found")],
  ];
  for (const [body, expected] of table) {
    it(JSON.stringify(body.toString("utf8")).slice(0, 90), async () => {
      const answer = await send(gateway, body);
      assert.deepEqual([answer.status, answer.text], [200, expected]);
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    });
  }

  it("that is nested deeper than any surface reads gets 400 in the canonical envelope", async () => {
    const params = `${"[".repeat(200)}${"]".repeat(200)}`;
    const answer = await send(
      gateway,
      `{"jsonrpc":"2.0","id":1,"method":"tools.list","params":${params}}`,
    );
    assert.equal(answer.status, 400);
    assert.match(answer.text, /"GATEWAY_INVALID_PARAMS".*"nested_too_deeply"/);
  });

  it("with the name of a tool as its method is refused with a hint to tools.call", async () => {
    const { text } = await send(
      gateway,
      '{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":"x"}}',
    );
    const message = "Method not found: a tool is called through tools.call";
    assert.equal(text, error("1", -32601, message));
  });

  const params: readonly [string, string, string][] = [
    ["", "-32602", "GATEWAY_INVALID_PARAMS"],
    ['["echo",{}]', "-32602", "GATEWAY_INVALID_PARAMS"],
    ['{"tool":1}', "-32602", "GATEWAY_INVALID_PARAMS"],
    ['{"name":"echo","arguments":{}}', "-32602", "GATEWAY_INVALID_PARAMS"],
    [
      '{"tool":"write","params":{"to":"a"},"confirmation_token":1}',
      "-32602",
      "GATEWAY_INVALID_PARAMS",
    ],
    ['{"tool":"__proto__"}', "-32601", "GATEWAY_TOOL_NOT_FOUND"],
    ['{"tool":"echo","params":[]}', "-32602", "GATEWAY_SCHEMA_VIOLATION"],
    ['{"tool":"echo"}', "-32602", "GATEWAY_SCHEMA_VIOLATION"],
    ['{"tool":"echo","params":{"text":1}}', "-32602", "GATEWAY_SCHEMA_VIOLATION"],
    ['{"tool":"echo","params":{"text":"x","__proto__":{}}}', "-32602", "GATEWAY_SCHEMA_VIOLATION"],
  ];
  for (const [text, code, errorCode] of params) {
    it(`with ${text === "" ? "no params" : `the params ${text}`} is refused`, async () => {
      const member = text === "" ? "" : `,"params":${text}`;
      const answer = await send(gateway, `{"jsonrpc":"2.0","id":7,"method":"tools.call"${member}}`);
      assert.equal(answer.status, 200);
      const response = answer.json as RpcResponse;
      assert.deepEqual(
        [response.id, response.error.code, response.error.data?.errorCode],
        [7, Number(code), errorCode],
      );
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    });
  }

  it("that violates a schema gets the path and the reason of each violation", async () => {
    const answer = await send(gateway, call("echo", { text: 1, more: 2 }));
    assert.deepEqual(errorOf(answer.json), {
      code: -32602,
      message: 'the input: unknown property "more"',
      data: {
        errorCode: "GATEWAY_SCHEMA_VIOLATION",
        details: {
          violations: [
            { path: "", reason: 'unknown property "more"' },
            { path: "/text", reason: "must be string" },
          ],
        },
      },
    });
  });
});

describe("a request that is refused before JSON-RPC", () => {
  it("has a wrong content type, a body above 1 MiB or another method", async () => {
    const codeOf = (json: unknown): unknown => Object(json)["error_code"];
    for (const type of [
      "text/plain",
      "application/json-rpc",
      "application/x-www-form-urlencoded",
      "",
    ]) {
      const answer = await send(gateway, echo, { headers: { "content-type": type } });
      assert.deepEqual([answer.status, codeOf(answer.json)], [415, "GATEWAY_INVALID_PARAMS"]);
    }
    const charset = { "content-type": "Application/JSON; charset=utf-8" };
    assert.equal((await send(gateway, echo, { headers: charset })).text, echoed);
    const full = echo + " ".repeat(1024 * 1024 - echo.length);
    assert.equal((await send(gateway, full)).text, echoed);
    const large = await send(gateway, `${full} `);
    assert.deepEqual([large.status, codeOf(large.json)], [413, "GATEWAY_INVALID_PARAMS"]);
    for (const method of ["GET", "PUT", "DELETE"]) {
      const answer = await send(gateway, undefined, { method });
      assert.deepEqual([answer.status, answer.headers.allow], [405, "POST"]);
    }
  });

  it("is from a key above its rate limit; an array takes one token", async () => {
    const slow = await gateway.issue({ rpsLimit: 1 });
    const array = `[${echo},${echo},${echo}]`;
    for (let i = 0; i < 2; i++)
      assert.equal((await send(gateway, array, { key: slow.key })).status, 200);
    const refused = await send(gateway, "{", { key: slow.key });
    assert.equal(refused.status, 429);
    assert.equal(refused.headers["retry-after"], "1");
    assert.deepEqual(refused.json, {
      error: "too many requests",
      error_code: "GATEWAY_RATE_LIMITED",
    });
  });

  it("exceeds the credit of its key", async () => {
    const poor = await gateway.issue({ cuLimit24hMilli: 150 });
    assert.equal((await send(gateway, echo, { key: poor.key })).text, echoed);
    for (const body of [echo, call("echo", { text: "x" }, "")]) {
      const refused = await send(gateway, body, { key: poor.key });
      assert.deepEqual([refused.status, refused.headers["retry-after"]], [429, "60"]);
      assert.equal(refused.headers["x-used-cu-milli"], undefined);
      assert.deepEqual(refused.json, {
        error: "credit limit exceeded",
        error_code: "GATEWAY_CU_LIMIT_EXCEEDED",
        details: { window: "24h", used_cu_milli: 100, limit_cu_milli: 150 },
      });
    }
    const listed = await send(gateway, '{"jsonrpc":"2.0","id":1,"method":"tools.list"}', {
      key: poor.key,
    });
    assert.equal(listed.status, 200);
  });
});

describe("a write tool", () => {
  const able = async () => (await gateway.issue({ capabilities: ["ledger:write"] })).key;

  it("asks for confirmation with HTTP 202, runs once, then answers 410", async () => {
    const key = await able();
    const asked = await send(gateway, call("write", { to: "a" }), { key });
    assert.equal(asked.status, 202);
    const { code, data } = errorOf(asked.json);
    assert.deepEqual([code, data?.errorCode], [-32002, "GATEWAY_CONFIRMATION_REQUIRED"]);
    assert.deepEqual(Object.keys(data?.details ?? {}), [
      "confirmation_token",
      "expires_at",
      "summary",
    ]);
    assert.deepEqual(data?.details?.["summary"], { input: { to: "a" } });
    const confirmation_token = String(data?.details?.["confirmation_token"]);
    const written = seen.writes.length;
    const other = await send(gateway, call("write", { to: "b", confirmation_token }), { key });
    assert.equal(other.status, 410);
    const done = await send(gateway, call("write", { to: "a", confirmation_token }, '"w"'), {
      key,
    });
    assert.deepEqual([done.status, done.text], [200, result('"w"', '{"hash":"0x01"}', 1000)]);
    assert.deepEqual(seen.writes.slice(written), [{ to: "a" }]);
    const again = await send(gateway, call("write", { to: "a", confirmation_token }), { key });
    assert.equal(again.status, 410);
    assert.deepEqual(
      [errorOf(again.json).code, errorOf(again.json).data?.errorCode],
      [-32003, "GATEWAY_CONFIRMATION_EXPIRED"],
    );
    assert.equal(seen.writes.length, written + 1);
  });

  it("also accepts the token next to its params, and accepts none after five minutes", async () => {
    const key = await able();
    const tokenOf = async (): Promise<string> => {
      const asked = await send(gateway, call("write", { to: "a" }), { key });
      return String(errorOf(asked.json).data?.details?.["confirmation_token"]);
    };
    const beside = (token: string): string =>
      `{"jsonrpc":"2.0","id":1,"method":"tools.call","params":{"tool":"write","params":{"to":"a"},"confirmation_token":${JSON.stringify(token)}}}`;
    assert.equal((await send(gateway, beside(await tokenOf()), { key })).status, 200);
    const late = await tokenOf();
    gateway.clock.advance(5 * 60_000);
    assert.equal((await send(gateway, beside(late), { key })).status, 410);
  });

  it("asks for confirmation inside an array with HTTP 200", async () => {
    const answer = await send(gateway, `[${call("write", { to: "a" })}]`, { key: await able() });
    assert.equal(answer.status, 200);
    assert.match(answer.text, /^\[\{"jsonrpc":"2.0","id":1,"error":\{"code":-32002,/);
  });

  it("runs as a notification once it is confirmed", async () => {
    const key = await able();
    const asked = await send(gateway, call("write", { to: "n" }, ""), { key });
    assert.deepEqual([asked.status, asked.text], [204, ""]);
    const asking = await send(gateway, call("write", { to: "n" }), { key });
    const confirmation_token = errorOf(asking.json).data?.details?.["confirmation_token"];
    const written = seen.writes.length;
    const done = await send(gateway, call("write", { to: "n", confirmation_token }, ""), { key });
    assert.deepEqual([done.status, done.text, done.headers["x-used-cu-milli"]], [204, "", "1000"]);
    assert.equal(seen.writes.length, written + 1);
  });
});

describe("a notification", () => {
  it("runs, is charged and gets no answer: HTTP 204 without a body", async () => {
    const answer = await send(gateway, call("echo", { text: "x" }, ""));
    assert.deepEqual([answer.status, answer.text], [204, ""]);
    assert.equal(answer.headers["x-used-cu-milli"], "100");
    assert.equal(answer.headers["content-type"], undefined);
  });

  it("also gets no answer when it fails or when its method is unknown", async () => {
    for (const body of [
      call("throws", {}, ""),
      call("nothing", {}, ""),
      '{"jsonrpc":"2.0","method":"tools.call"}',
      '{"jsonrpc":"2.0","method":"tools.list"}',
      '{"jsonrpc":"2.0","method":"nothing"}',
    ]) {
      const answer = await send(gateway, body);
      assert.deepEqual([answer.status, answer.text], [204, ""], body);
    }
  });
});

describe("an array", () => {
  it("is answered in order; each request fails separately, and notifications get no answer", async () => {
    const items = [
      call("fails", {}, '"a"'),
      echo,
      call("echo", { text: "x" }, ""),
      '{"jsonrpc":"2.0","id":2.0,"method":"nothing"}',
      "7",
      "[]",
      call("echo", { text: "x" }, "null"),
    ];
    const answer = await send(gateway, `[${items.join(" , ")}]`);
    assert.equal(answer.status, 200);
    const failed = {
      code: -32603,
      message: "the node did not answer",
      data: { errorCode: "GATEWAY_TOOL_EXECUTION_ERROR" },
    };
    assert.equal(
      answer.text,
      `[${[
        `{"jsonrpc":"2.0","id":"a","error":${JSON.stringify(failed)}}`,
        echoed,
        error("2.0", -32601, "Method not found"),
        error("null", -32600, "Invalid Request"),
        error("null", -32600, "Invalid Request"),
        result("null", '{"text":"x"}', 100),
      ].join(",")}]`,
    );
    assert.equal(answer.headers["x-used-cu-milli"], "300");
  });

  it("contains one to twenty items", async () => {
    const of = (n: number): string => `[${Array.from({ length: n }, () => echo).join(",")}]`;
    assert.equal((await send(gateway, of(1))).text, `[${echoed}]`);
    assert.equal((await send(gateway, of(20))).headers["x-used-cu-milli"], "2000");
    for (const body of ["[]", " [ ] ", of(21), `[${"1,".repeat(20)}1]`]) {
      const answer = await send(gateway, body);
      assert.deepEqual(
        [answer.status, answer.text],
        [200, error("null", -32600, "Invalid Request")],
      );
      assert.equal(answer.headers["x-used-cu-milli"], "0");
    }
  });

  it("of notifications only is answered with 204", async () => {
    const body = `[${call("echo", { text: "x" }, "")},${call("lost", {}, "")}]`;
    const answer = await send(gateway, body);
    assert.deepEqual([answer.status, answer.text], [204, ""]);
    assert.equal(answer.headers["x-used-cu-milli"], "100");
  });

  it("reserves credit for each call when it runs; a call that exceeds it does not affect the others", async () => {
    const { key } = await gateway.issue({ cuLimit24hMilli: 250 });
    const answer = await send(gateway, `[${echo},${echo},${echo},${call("raw", {}, "2")}]`, {
      key,
    });
    assert.equal(answer.status, 200);
    const answers = answer.json as RpcResponse[];
    assert.deepEqual(
      answers.map((one) => one.error?.code),
      [undefined, undefined, -32005, -32005],
    );
    assert.deepEqual(answers[3]?.error.data, {
      errorCode: "GATEWAY_CU_LIMIT_EXCEEDED",
      details: { window: "24h", used_cu_milli: 200, limit_cu_milli: 250 },
    });
    assert.equal(answer.headers["x-used-cu-milli"], "200");
  });
});
