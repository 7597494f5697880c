/** The node proxy end to end (decisions.md, section 5): a client, the whole pipeline, and a node that answers with given bytes. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { fixture, skipWithoutFixtures } from "../ledger/decode/chains.ts";
import { hash, request } from "../ledger/fixture.ts";
import { TextNode } from "../ledger-ws/text-node.ts";
import { untilNodesUp } from "../nodes-up.ts";
import { until } from "../until.ts";

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
plans: { enterprise: { rps: 1000000, includedCu: 499000000 } }
upstreams:
  ledger: { urls: "\${NODE_URL}", aliases: { ledger_: midnight_ }, batchParallel: 3 }
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

const node = new TextNode();
let gateway: TestGateway;
before(async () => {
  await node.start();
  gateway = await startTestGateway({ pipeline, env: { NODE_URL: node.url } });
  // The finalized block is unknown until the node has been probed.
  await untilNodesUp(gateway, 1);
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await node.stop();
});

async function post(
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; text: string; used: string | null; type: string | null }> {
  const authorization = `Bearer ${gateway.key}`;
  const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json", ...headers },
    body,
  });
  return {
    status: response.status,
    text: await response.text(),
    used: response.headers.get("x-used-cu-milli"),
    type: response.headers.get("content-type"),
  };
}

const callsOf = (method: string): readonly string[] =>
  node.calls.filter((call) => call.startsWith(`${method} `));

const answer = (id: string, result: string): string =>
  `{"jsonrpc":"2.0","id":${id},"result":${result}}`;
const error = (id: string, code: number, message: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":"${message}"}}`;
const parseError = error("null", -32700, "Parse error");
const invalid = (id: string): string => error(id, -32600, "Invalid Request");
const notAllowed = (id: string): string => error(id, -32601, "Method Not Allowed");
const batch = (...items: readonly string[]): string => `[${items.join(",")}]`;

describe("a call", () => {
  it("is answered with the client's id and the node's result, byte for byte, for its price, also from the cache", async () => {
    const result = '{"b":1.0,"a":340282366920938463463374607431768211455,"s":"\\u00e9\\/é"}';
    node.results.set("chain_getRuntimeVersion", result);
    for (const id of ["1", '"é\\n✓"', "null", "-0.50e3", "18446744073709551616"]) {
      const body = request("chain_getRuntimeVersion", `["${hash(1)}"]`, id);
      const type = "application/json";
      const text = answer(id, result);
      assert.deepEqual(await post(body), { status: 200, text, used: "200", type });
    }
    assert.equal(callsOf("chain_getRuntimeVersion").length, 1);
  });

  it("reaches the node with its decoded method, the node's prefix and its params, and is billed under its own name", async () => {
    node.results.set("midnight_ledgerVersion", '"6.1"');
    node.results.set("system_accountNextIndex", "7");
    assert.equal((await post(request("ledger_ledgerVersion", "[]"))).text, answer("1", '"6.1"'));
    await post(
      '{"x":"\\u0000","id":9,"params":[1.0],"method":"chain_get\\u0048ead","jsonrpc":"2.0"}',
    );
    await post(request("chain_getHead", '{"hash":null}'));
    assert.deepEqual(callsOf("chain_getHead"), [
      "chain_getHead [1]",
      'chain_getHead {"hash":null}',
    ]);
    const one = await startTestGateway({ pipeline, env: { NODE_URL: node.url } });
    await using _ = one;
    await fetch(`${one.url}/v1/ledger/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${one.key}`, "content-type": "application/json" },
      body: request("account_nextIndex", '["5G"]'),
    });
    await one.gateway.stop();
    const rows = [...readUsage(join(one.folder, "data"))];
    assert.deepEqual(
      rows.map(({ method, usedMilliCu }) => [method, usedMilliCu]),
      [["account_nextIndex", 500]],
    );
  });

  it("is charged if the node answers with an error, which is passed on unchanged", async () => {
    const { text, used } = await post(request("state_call", "[]"));
    assert.deepEqual([text, used], [error("1", -32601, "Method not found"), "5000"]);
  });

  it("of a method that is not on the whitelist is refused, and is free", async () => {
    const names = ["author_rotateKeys", "dev_setStorage", "System_chain", "system_chain ", ""];
    for (const name of [...names, "__proto__", "constructor"]) {
      const { text, used } = await post(request(name, "[]", '"i"'));
      assert.deepEqual([text, used], [notAllowed('"i"'), "0"], name);
      assert.deepEqual(callsOf(name), []);
    }
    const { text, used } = await post(request("rpc_methods", "[]"));
    assert.match(text, /"methods":\["account_nextIndex",/);
    assert.equal(used, "100");
  });

  it("that is not JSON-RPC gets the error of JSON-RPC with HTTP 200, and a notification 204", async () => {
    const bodies: [string | Buffer, string][] = [
      ["", parseError],
      ["{", parseError],
      [Buffer.from([0x22, 0xff, 0x22]), parseError],
      ["[]", invalid("null")],
      ["{}", invalid("null")],
      [batch(...Array<string>(51).fill(request("system_chain"))), invalid("null")],
      [request("system_chain", "[]", "[]"), invalid("null")],
      [request("system_chain", "5"), invalid("1")],
      ['{"jsonrpc":"1.0","id":1,"method":"system_chain"}', invalid("1")],
      ['{"jsonrpc":"2.0","id":1}', invalid("1")],
    ];
    const asked = callsOf("system_chain").length;
    for (const [body, wanted] of bodies) {
      const { status, text, used } = await post(body);
      assert.deepEqual([status, text, used], [200, wanted, "0"], String(body).slice(0, 80));
    }
    const silent = ["system_chain", "author_rotateKeys"].map(
      (method) => `{"jsonrpc":"2.0","method":"${method}"}`,
    );
    for (const body of [...silent, batch(...silent)]) {
      const { status, text, used, type } = await post(body);
      assert.deepEqual([status, text, used, type], [204, "", "0", null]);
    }
    assert.equal(callsOf("system_chain").length, asked);
  });

  it("that HTTP refuses gets the canonical envelope", async () => {
    const tooLarge = new Uint8Array(10 * 1024 * 1024 + 1).fill(0x20);
    for (const [body, headers, wanted] of [
      ["{}", { "content-type": "text/plain" }, [415, "GATEWAY_INVALID_PARAMS"]],
      ["{}", { authorization: "Bearer x" }, [401, "GATEWAY_UNAUTHORIZED"]],
      [tooLarge, {}, [413, "GATEWAY_INVALID_PARAMS"]],
    ] as const) {
      const { status, text } = await post(body, headers);
      assert.deepEqual([status, (JSON.parse(text) as { error_code: unknown }).error_code], wanted);
    }
  });
});

describe("a batch", () => {
  it("is answered in request order without its notifications, and costs what its calls cost", async () => {
    const names = ["chain_getHead", "system_name", "state_call"];
    for (const name of names) node.results.set(name, `"${name}"`);
    const { text, used } = await post(
      batch(
        request("chain_getHead", "[]", "3"),
        '{"jsonrpc":"2.0","method":"system_chain"}',
        "17",
        request("author_rotateKeys", "[]", "4"),
        request("system_name", "[]", '"n"'),
        request("rpc_methods", "[]", "5").replace('"2.0"', '"1.0"'),
        request("state_call", "[]", "3"),
      ),
    );
    const wanted = [
      answer("3", '"chain_getHead"'),
      invalid("null"),
      notAllowed("4"),
      answer('"n"', '"system_name"'),
      invalid("5"),
      answer("3", '"state_call"'),
    ];
    assert.deepEqual([text, used], [batch(...wanted), "5200"]);
  });

  it("has at most batchParallel calls at the nodes, which it sends once if they are identical", async () => {
    node.results.set("state_call", '"0x01"');
    node.held.add("state_call");
    const asked = callsOf("state_call").length;
    const calls = Array.from({ length: 20 }, (_, n) => request("state_call", `["${n}"]`, `${n}`));
    const running = post(batch(...calls));
    await until(() => callsOf("state_call").length === asked + 3);
    node.release();
    const { text, used } = await running;
    assert.equal(text, batch(...calls.map((_, n) => answer(String(n), '"0x01"'))));
    assert.equal(used, "100000");
    node.held.add("chain_getHead");
    const earlier = callsOf("chain_getHead").length;
    const same = post(batch(...[1, 2, 3].map((n) => request("chain_getHead", "[]", `${n}`))));
    await until(() => callsOf("chain_getHead").length > earlier);
    node.release();
    assert.equal((await same).used, "300");
    assert.equal(callsOf("chain_getHead").length, earlier + 1);
  });

  it("lets each call fail separately, and costs what the others cost", async () => {
    node.results.set("state_getMetadata", "{");
    const names = ["chain_getHead", "state_getMetadata", "state_call"];
    const { text, used } = await post(batch(...names.map((name) => request(name))));
    const failed = error("1", -32603, "Internal Error");
    assert.equal(text, batch(answer("1", '"chain_getHead"'), failed, answer("1", '"0x01"')));
    assert.equal(used, "5100");
  });

  it("asks for nothing more, and costs nothing more, when its answer has 32 MiB", async () => {
    const mebibyte = 1024 * 1024;
    node.results.set("state_getMetadata", `"0x${"ab".repeat(1.5 * mebibyte)}"`);
    const asked = callsOf("state_getMetadata").length;
    const calls = Array.from({ length: 20 }, (_, n) =>
      request("state_getMetadata", `["${hash(n)}"]`, String(n)),
    );
    const { text, used } = await post(batch(...calls));
    const answers = JSON.parse(text) as { result?: string; error?: object }[];
    assert.equal(answers.filter(({ result }) => result !== undefined).length, 10);
    assert.deepEqual(answers[19]?.error, { code: -32603, message: "Internal Error" });
    assert.ok(Buffer.byteLength(text) <= 32 * mebibyte);
    // The first answer that did not fit, and those that were on the way, are charged: the node has done its work.
    const sent = callsOf("state_getMetadata").length - asked;
    assert.ok(sent >= 11 && sent <= 13, String(sent));
    assert.equal(used, String(sent * 2000));
  });

  it("that exceeds the remaining credit is not forwarded at all", async () => {
    const poor = await gateway.issue({ cuLimit24hMilli: 5000 });
    const body = batch(request("state_getStorage", '["0x01"]'), request("state_call", '["x"]'));
    const { status, text } = await post(body, { authorization: `Bearer ${poor.key}` });
    assert.equal(status, 429);
    assert.deepEqual(JSON.parse(text), {
      error: "credit limit exceeded",
      error_code: "GATEWAY_CU_LIMIT_EXCEEDED",
      details: { window: "24h", used_cu_milli: 0, limit_cu_milli: 5000 },
    });
    assert.deepEqual(callsOf("state_getStorage"), []);
  });
});

interface Recording {
  readonly blocks: readonly {
    readonly hash: string;
    readonly block: unknown;
    readonly events: string;
  }[];
}

it(
  "recorded blocks of a real runtime are returned byte for byte, first from the node and then from the cache",
  { skip: skipWithoutFixtures },
  async () => {
    const { blocks } = JSON.parse(fixture("westend-dev/chain.json")) as Recording;
    const events = "0x26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7";
    for (const { hash: at, block, events: value } of blocks) {
      node.results.set(`chain_getBlock ["${at}"]`, JSON.stringify(block));
      node.results.set(`state_getStorage ["${events}","${at}"]`, JSON.stringify(value));
    }
    for (const round of ["node", "cache"]) {
      const asked = node.calls.length;
      for (const { hash: at, block, events: value } of blocks) {
        const storage = request("state_getStorage", `["${events}","${at}"]`, "2");
        const { text, used } = await post(batch(request("chain_getBlock", `["${at}"]`), storage));
        const wanted = [answer("1", JSON.stringify(block)), answer("2", JSON.stringify(value))];
        assert.deepEqual([text, used], [batch(...wanted), "1500"]);
      }
      const fresh = node.calls
        .slice(asked)
        .filter((call) => /^(chain_getBlock|state_getStorage) /.test(call));
      // The events of block 0 are null, which is never cached.
      assert.equal(fresh.length, round === "node" ? 2 * blocks.length : 1, round);
    }
  },
);

it("metrics count calls by source, failures and the cache, by the names of the whitelist", async () => {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const valueOf = (series: string): number =>
    Number(new RegExp(`^sluice_ledger_${series} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  const calls = 'calls_total\\{upstream="ledger",method="chain_getRuntimeVersion",source=';
  assert.deepEqual([valueOf(`${calls}"node"\\}`), valueOf(`${calls}"cache"\\}`)], [1, 4]);
  const kept = 'cache_kept_total\\{upstream="ledger",method="chain_getRuntimeVersion"\\}';
  assert.equal(valueOf(kept), 1);
  assert.equal(valueOf('failures_total\\{upstream="ledger",reason="garbage"\\}'), 1);
  for (const name of ["entries", "bytes"]) assert.ok(valueOf(`cache_${name}\\{.*\\}`) > 0, name);
});
