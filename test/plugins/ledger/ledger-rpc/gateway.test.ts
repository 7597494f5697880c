/** The node proxy end to end: a client, the whole pipeline, and a node that answers with given bytes. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import { after, before, describe, it } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { closed, healthyNode, listening } from "../../../e2e/rpc-node.ts";
import { fixture, skipWithoutFixtures } from "../ledger/decode/chains.ts";
import { hash, request } from "../ledger/fixture.ts";

const pipeline = `
version: 1
store: { data: "\${DATA_DIR}" }
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
upstreams:
  ledger: { urls: "\${NODE_URL}", aliases: { ledger_: midnight_ } }
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;

/** A node whose results are JSON texts instead of values. */
class TextNode {
  /** Results by `method params`, or by method alone. */
  readonly results = new Map<string, string>();
  readonly calls: string[] = [];
  url = "";
  readonly #server = createServer((req, res) => {
    void this.#answer(req).then((body) =>
      res.writeHead(200, { "content-type": "application/json" }).end(body),
    );
  });

  async start(): Promise<void> {
    this.url = await listening(this.#server);
  }

  stop(): Promise<void> {
    return closed(this.#server);
  }

  async #answer(req: IncomingMessage): Promise<string> {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const asked = JSON.parse(body) as Call | Call[];
    return Array.isArray(asked)
      ? `[${asked.map((call) => this.#one(call)).join(",")}]`
      : this.#one(asked);
  }

  #one({ id, method, params = [] }: Call): string {
    const call = `${method} ${JSON.stringify(params)}`;
    this.calls.push(call);
    const known = this.results.get(call) ?? this.results.get(method);
    const healthy = healthyNode[method]?.(params);
    const result = known ?? (healthy === undefined ? undefined : JSON.stringify(healthy));
    const outcome =
      result === undefined
        ? '"error":{"code":-32601,"message":"Method not found"}'
        : `"result":${result}`;
    return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${outcome}}`;
  }
}

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

const node = new TextNode();
let gateway: TestGateway;

before(async () => {
  await node.start();
  gateway = await startTestGateway({ pipeline, env: { NODE_URL: node.url } });
  // The finalized block is unknown until the node has been probed.
  for (let tries = 0; tries < 2000; tries++) {
    if ((await fetch(`${gateway.url}/readyz`)).ok) return;
  }
  assert.fail("the node is never ready");
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await node.stop();
});

async function post(
  body: string | Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): Promise<{ status: number; text: string; used: string | null; type: string | null }> {
  const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      ...headers,
    },
    body,
  });
  return {
    status: response.status,
    text: await response.text(),
    used: response.headers.get("x-used-cu-milli"),
    type: response.headers.get("content-type"),
  };
}

describe("POST /v1/ledger/rpc", () => {
  it("returns the node's bytes with the client's id and reports the charge", async () => {
    const result = '{"b":1.0,"a":340282366920938463463374607431768211455,"s":"\\u00e9é"}';
    node.results.set("chain_getRuntimeVersion", result);
    assert.deepEqual(await post(request("chain_getRuntimeVersion", `["${hash(1)}"]`, '"é"')), {
      status: 200,
      text: `{"jsonrpc":"2.0","id":"é","result":${result}}`,
      used: "200",
      type: "application/json",
    });
  });

  it("maps the client's prefix to the node's", async () => {
    node.results.set("midnight_ledgerVersion", '"6.1"');
    const { text } = await post(request("ledger_ledgerVersion", "[]"));
    assert.equal(text, '{"jsonrpc":"2.0","id":1,"result":"6.1"}');
  });

  it("answers notifications with 204 and no body", async () => {
    const { status, text, type } = await post('{"jsonrpc":"2.0","method":"system_chain"}');
    assert.deepEqual([status, text, type], [204, "", null]);
  });

  it("answers a body that is not JSON with a JSON-RPC error and HTTP 200", async () => {
    for (const body of ["", "{", Buffer.from([0x22, 0xff, 0x22])]) {
      const { status, text } = await post(body);
      assert.equal(status, 200);
      assert.equal(
        text,
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
      );
    }
  });

  it("answers HTTP errors with the canonical envelope", async () => {
    const statusAndCode = async (
      body: string | Uint8Array,
      headers: Record<string, string>,
    ): Promise<unknown[]> => {
      const { status, text } = await post(body, headers);
      return [status, (JSON.parse(text) as { error_code: unknown }).error_code];
    };
    assert.deepEqual(await statusAndCode("{}", { "content-type": "text/plain" }), [
      415,
      "GATEWAY_INVALID_PARAMS",
    ]);
    assert.deepEqual(await statusAndCode("{}", { authorization: "Bearer x" }), [
      401,
      "GATEWAY_UNAUTHORIZED",
    ]);
    const tooLarge = new Uint8Array(10 * 1024 * 1024 + 1).fill(0x20);
    assert.deepEqual(await statusAndCode(tooLarge, {}), [413, "GATEWAY_INVALID_PARAMS"]);
  });

  it("forwards nothing of an array that exceeds the remaining credit", async () => {
    const poor = await gateway.issue({ cuLimit24hMilli: 5000 });
    const headers = { authorization: `Bearer ${poor.key}` };
    const asked = node.calls.filter((call) => call.startsWith("state_getStorage ")).length;
    const body = `[${request("state_getStorage", '["0x01"]')},${request("state_call", '["x"]')}]`;
    const { status, text } = await post(body, headers);
    assert.equal(status, 429);
    assert.deepEqual(JSON.parse(text), {
      error: "credit limit exceeded",
      error_code: "GATEWAY_CU_LIMIT_EXCEEDED",
      details: { window: "24h", used_cu_milli: 0, limit_cu_milli: 5000 },
    });
    assert.equal(node.calls.filter((call) => call.startsWith("state_getStorage ")).length, asked);
  });
});

interface Recording {
  readonly blocks: readonly {
    readonly hash: string;
    readonly block: unknown;
    readonly events: string;
  }[];
}

describe("recorded blocks of a real runtime", { skip: skipWithoutFixtures }, () => {
  it("are returned byte for byte, first from the node and then from the cache", async () => {
    const { blocks } = JSON.parse(fixture("westend-dev/chain.json")) as Recording;
    const events = "0x26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7";
    for (const { hash: at, block, events: value } of blocks) {
      node.results.set(`chain_getBlock ["${at}"]`, JSON.stringify(block));
      node.results.set(`state_getStorage ["${events}","${at}"]`, JSON.stringify(value));
    }
    for (const round of ["node", "cache"]) {
      const asked = node.calls.length;
      for (const { hash: at, block, events: value } of blocks) {
        const body = `[${request("chain_getBlock", `["${at}"]`)},${request("state_getStorage", `["${events}","${at}"]`, "2")}]`;
        const { text, used } = await post(body);
        assert.equal(
          text,
          `[{"jsonrpc":"2.0","id":1,"result":${JSON.stringify(block)}},{"jsonrpc":"2.0","id":2,"result":${JSON.stringify(value)}}]`,
        );
        assert.equal(used, "1500");
      }
      const fresh = node.calls
        .slice(asked)
        .filter((call) => /^(chain_getBlock|state_getStorage) /.test(call));
      // The events of block 0 are null, which is never cached.
      assert.equal(fresh.length, round === "node" ? 2 * blocks.length : 1, round);
    }
  });
});
