/** The surface `ledger-ws`: calls over WebSocket, through the shipped pipeline, with a node that answers given bytes. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import {
  startTestGateway,
  type TestGateway,
  type WantedKey,
} from "../../../../plugins/contracts/testing.ts";
import { until } from "../until.ts";
import { hash, request } from "../ledger/fixture.ts";
import { TextNode } from "./text-node.ts";
import { connectWs, refusalOf, type WsClient } from "./ws-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");
const path = "/v1/ledger/rpc";

const node = new TextNode();
let gateway: TestGateway;

before(async () => {
  await node.start();
  gateway = await startTestGateway({
    pipeline: shipped
      .replaceAll(
        "ledger-ws: { upstream: ledger }",
        "ledger-ws: { upstream: ledger, connectionsPerKey: 3 }",
      )
      .replace("aliases: {", "connections: 64\n    aliases: {")
      .replace(
        "websocket: true\n    run: [{ use: ledger }]",
        "websocket: true\n    run: [{ use: ledger }, failing-step]",
      )
      .concat(
        `plugins: { failing-step: ${JSON.stringify(join(import.meta.dirname, "failing-step.ts"))} }\n`,
      ),
    env: { LEDGER_RPC_URL: node.url },
  });
  await until(async () => (await fetch(`${gateway.url}/readyz`)).ok);
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await node.stop();
});

const connect = async (wanted: WantedKey = {}): Promise<WsClient> =>
  connectWs(gateway.url + path, { key: (await gateway.issue(wanted)).key });

async function usedBy(workspaceId: string): Promise<number> {
  const { includedMilliCu } = await gateway.gateway.use("metering")!.workspaceUsage(workspaceId);
  return includedMilliCu;
}

describe("calls over WebSocket", () => {
  it("are answered with the node's bytes and the client's id, and charged before the answer", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    const result = '{"b":1.0,"a":340282366920938463463374607431768211455,"s":"\\u00e9é"}';
    node.results.set("chain_getRuntimeVersion", result);
    const body = request("chain_getRuntimeVersion", `["${hash(1)}"]`, '"é"');
    assert.equal(await client.ask(body), `{"jsonrpc":"2.0","id":"é","result":${result}}`);
    assert.equal(await usedBy(workspaceId), 200);
    const asked = node.count("chain_getRuntimeVersion");
    assert.equal(await client.ask(body), `{"jsonrpc":"2.0","id":"é","result":${result}}`);
    assert.equal(node.count("chain_getRuntimeVersion"), asked, "answered from the cache");
    assert.equal(await usedBy(workspaceId), 400);
  });

  it("arrive as text also if the answer is large", async () => {
    await using client = await connect();
    node.results.set("state_getMetadata", `"0x${"6d".repeat(200_000)}"`);
    const answer = await client.ask(request("state_getMetadata", `["${hash(2)}"]`));
    assert.equal(answer, `{"jsonrpc":"2.0","id":1,"result":"0x${"6d".repeat(200_000)}"}`);
  });

  it("share one call to the node with the same read over HTTP", async () => {
    await using client = await connect();
    node.results.set("state_call", '"0x01"');
    node.held.add("state_call");
    const body = request("state_call", '["x","0x"]');
    client.send(body);
    await until(() => node.count("state_call") === 1);
    const overHttp = fetch(gateway.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body,
    });
    await until(async () => {
      const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      return /^sluice_ledger_calls_total\{.*method="state_call",source="flight"\} 1$/m.test(
        metrics,
      );
    });
    node.release();
    assert.equal(await client.next(), await (await overHttp).text());
    assert.equal(node.count("state_call"), 1);
  });

  it("are answered in the order in which they are completed", async () => {
    await using client = await connect();
    node.results.set("beefy_getFinalizedHead", '"0x02"');
    node.held.add("beefy_getFinalizedHead");
    client.send(request("beefy_getFinalizedHead", "[]", "1"));
    assert.equal(
      await client.ask(request("system_chain", "[]", "2")),
      '{"jsonrpc":"2.0","id":2,"result":"Test"}',
    );
    node.release();
    assert.equal(await client.next(), '{"jsonrpc":"2.0","id":1,"result":"0x02"}');
  });

  it("are refused one by one: not whitelisted, invalid, not JSON, too complex", async () => {
    await using client = await connect();
    const codeOf = async (text: string): Promise<unknown> => {
      const { error, id } = JSON.parse(await client.ask(text)) as {
        error: { code: number };
        id: unknown;
      };
      return [error.code, id];
    };
    assert.deepEqual(await codeOf(request("author_rotateKeys", "[]", "7")), [-32601, 7]);
    assert.deepEqual(await codeOf('{"id":8}'), [-32600, 8]);
    assert.deepEqual(await codeOf("{"), [-32700, null]);
    assert.deepEqual(await codeOf(`[${"0,".repeat(70_000)}0]`), [-32600, null]);
    // A notification gets no answer, so the next answer is that of the call after it.
    client.send('{"jsonrpc":"2.0","method":"system_chain"}');
    assert.equal(
      await client.ask(request("system_chain", "[]", "9")),
      '{"jsonrpc":"2.0","id":9,"result":"Test"}',
    );
  });
});

it("a subscription at a node without WebSockets fails, and costs nothing", async () => {
  const { key, workspaceId } = await gateway.issue({});
  await using client = await connectWs(gateway.url + path, { key });
  const answer = await client.ask(request("chain_subscribeNewHeads"));
  const error = '{"code":-32603,"message":"Internal Error"}';
  assert.equal(answer, `{"jsonrpc":"2.0","id":1,"error":${error}}`);
  assert.equal(await usedBy(workspaceId), 0);
});

describe("limits of a connection", () => {
  it("without credit, every call of the message has an error, and the connection stays", async () => {
    const { key, workspaceId } = await gateway.issue({ cuLimit24hMilli: 150 });
    await using client = await connectWs(gateway.url + path, { key });
    const error = {
      code: -32005,
      message: "credit limit exceeded",
      data: {
        errorCode: "GATEWAY_CU_LIMIT_EXCEEDED",
        details: { window: "24h", used_cu_milli: 0, limit_cu_milli: 150 },
      },
    };
    const batch = `[${request("system_chain", "[]", "1")},${request("nope", "[]", "2")},${request("system_chain", "[]", "3")}]`;
    assert.deepEqual(JSON.parse(await client.ask(batch)), [
      { jsonrpc: "2.0", id: 1, error },
      { jsonrpc: "2.0", id: 2, error: { code: -32601, message: "Method Not Allowed" } },
      { jsonrpc: "2.0", id: 3, error },
    ]);
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
    assert.match(await client.ask(request("system_chain")), /"code":-32005/);
    assert.equal(await usedBy(workspaceId), 100);
  });

  it("a message takes a token of the rate limit, and above the limit it is refused", async () => {
    // The burst is two requests. The upgrade takes one of them.
    await using client = await connect({ rpsLimit: 1 });
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
    assert.deepEqual(JSON.parse(await client.ask(request("system_chain", "[]", '"x"'))), {
      jsonrpc: "2.0",
      id: "x",
      error: {
        code: -32029,
        message: "Too Many Requests",
        data: { errorCode: "GATEWAY_RATE_LIMITED" },
      },
    });
  });

  it("a step that fails at a message refuses its calls, and the connection stays open", async () => {
    const { key, workspaceId } = await gateway.issue({});
    const headers = { "x-fail": "1" };
    await using client = await connectWs(gateway.url + path, { key, headers });
    for (const id of ["1", "2"]) {
      const { error } = JSON.parse(await client.ask(request("system_chain", "[]", id))) as {
        error: object;
      };
      const data = { errorCode: "GATEWAY_INTERNAL_ERROR" };
      assert.deepEqual(error, { code: -32603, message: "Internal Error", data });
    }
    assert.equal(await usedBy(workspaceId), 0);
  });

  it("a key that is revoked meanwhile can no longer be used", async () => {
    const { key, keyId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
    const { admin } = gateway.gateway.use("accounts")!;
    await admin.revokeKey(keyId, { actor: "test", at: Date.now() });
    client.send(request("system_chain"));
    assert.equal(await client.closed, 1008);
  });

  it("a message of more than 1 MiB closes the connection", async () => {
    await using client = await connect();
    client.send(`"${"x".repeat(1_048_576)}"`);
    assert.equal(await client.closed, 1009);
  });

  it("a key has a limited number of connections", async () => {
    const { key } = await gateway.issue({});
    await using first = await connectWs(gateway.url + path, { key });
    await using _second = await connectWs(gateway.url + path, { key });
    await using _third = await connectWs(gateway.url + path, { key });
    assert.deepEqual(await refusalOf(gateway.url + path, { key }), [429, "GATEWAY_RATE_LIMITED"]);
    first.socket.close();
    await first.closed;
    await until(async () => {
      try {
        await using _again = await connectWs(gateway.url + path, { key });
        return true;
      } catch {
        return false;
      }
    });
  });

  it("the answer to a batch has at most 4 MiB, and the calls that are left out are free", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    node.results.set("state_getMetadata", `"0x${"6d".repeat(1_500_000)}"`);
    const calls = Array.from({ length: 30 }, (_, n) =>
      request("state_getMetadata", `["${hash(200 + n)}"]`),
    );
    const text = await client.ask(`[${calls.join(",")}]`);
    const answers = JSON.parse(text) as { error?: object }[];
    const failed = answers.map(({ error }) => error !== undefined);
    assert.deepEqual(failed, [false, ...Array<boolean>(29).fill(true)]);
    // Those that were at the node when the limit was reached are charged.
    assert.ok((await usedBy(workspaceId)) < 30 * 2000);
  });

  it("at most 32 messages are being answered; further ones wait", async () => {
    await using client = await connect();
    node.results.set("grandpa_proveFinality", '"0x01"');
    node.held.add("grandpa_proveFinality");
    for (let id = 0; id < 40; id++) {
      client.send(request("grandpa_proveFinality", `[${id}]`, String(id)));
    }
    await until(() => node.count("grandpa_proveFinality") === 32);
    node.release();
    const ids = new Set<number>();
    while (ids.size < 40) ids.add((JSON.parse(await client.next()) as { id: number }).id);
    assert.equal(node.count("grandpa_proveFinality"), 40);
  });

  it("a client that does not read is closed", async () => {
    const { key, workspaceId } = await gateway.issue({});
    await using client = await connectWs(gateway.url + path, { key });
    node.results.set("state_getMetadata", `"0x${"6d".repeat(2_000_000)}"`);
    node.held.add("state_getMetadata");
    const asked = node.count("state_getMetadata");
    for (let id = 0; id < 20; id++) {
      client.send(request("state_getMetadata", `["${hash(100 + id)}"]`, String(id)));
    }
    await until(() => node.count("state_getMetadata") === asked + 20);
    client.socket.pause();
    node.release();
    await until(async () => (await usedBy(workspaceId)) === 20 * 2000);
    client.socket.resume();
    assert.equal(await client.closed, 1013);
  });
});

describe("who may connect", () => {
  it("only a key with the capability", async () => {
    const other = await gateway.issue({ capabilities: ["inference"] });
    assert.deepEqual(await refusalOf(gateway.url + path, { key: other.key }), [
      403,
      "GATEWAY_PERMISSION_DENIED",
    ]);
    assert.deepEqual(await refusalOf(gateway.url + path), [401, "GATEWAY_UNAUTHORIZED"]);
  });

  it("a page with a ticket, once, and from its origin only", async () => {
    const protocols = protocolsWith(await ticketFor({ origin: "https://app.example" }));
    const headers = { origin: "https://app.example" };
    await using client = await connectWs(gateway.url + path, { protocols, headers });
    assert.equal(client.socket.protocol, "ledger.v1");
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
    const again = await refusalOf(gateway.url + path, { protocols, headers });
    assert.deepEqual(again, [401, "GATEWAY_UNAUTHORIZED"]);
    const next = await ticketFor({ origin: "https://app.example" });
    const stolen = await refusalOf(gateway.url + path, {
      protocols: protocolsWith(next),
      headers: { origin: "https://evil.example" },
    });
    assert.deepEqual(stolen, [401, "GATEWAY_UNAUTHORIZED"]);
  });

  it("not with a ticket for a model, nor with one of a key without the capability", async () => {
    const tickets = [
      await ticketFor({ model: "A/B-1" }),
      await ticketFor({}, (await gateway.issue({ capabilities: ["inference"] })).key),
    ];
    for (const ticket of tickets) {
      const refused = await refusalOf(gateway.url + path, { protocols: protocolsWith(ticket) });
      assert.deepEqual(refused, [403, "GATEWAY_PERMISSION_DENIED"]);
    }
  });

  it("a ticket has the addresses of its key, takes from its bucket, and is charged to its workspace", async () => {
    const { keyId, workspaceId } = await gateway.issue({
      rpsLimit: 100,
      allowedAddresses: ["127.0.0.1"],
    });
    const { tickets } = gateway.gateway.use("accounts")!;
    const { ticket } = tickets.issue({ keyId, model: undefined, origin: undefined });
    await using client = await connectWs(gateway.url + path, { protocols: protocolsWith(ticket) });
    // The bucket of an address holds five requests.
    const count = 50;
    for (let id = 0; id < count; id++) client.send(request("system_chain"));
    for (let id = 0; id < count; id++) assert.match(await client.next(), /"result":"Test"/);
    assert.equal(await usedBy(workspaceId), count * 100);
  });

  it("a ticket cannot be used for a call over HTTP or in the form of another surface, which leaves it valid", async () => {
    const protocols = protocolsWith(await ticketFor({}));
    const overHttp = await fetch(gateway.url + path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "sec-websocket-protocol": protocols.join(", "),
      },
      body: request("system_chain"),
    });
    assert.equal(overHttp.status, 401);
    const forStream = protocols.map((text) => text.replace("ledger.auth", "confidential.auth"));
    const refused = await refusalOf(gateway.url + path, { protocols: forStream });
    assert.deepEqual(refused, [401, "GATEWAY_UNAUTHORIZED"]);
    await using client = await connectWs(gateway.url + path, { protocols });
    assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
  });
});

describe("a gateway that stops", () => {
  it("answers what it has received, and then closes with 1001", async () => {
    const stopping = await startTestGateway({
      pipeline: shipped,
      env: { LEDGER_RPC_URL: node.url },
    });
    await using client = await connectWs(stopping.url + path, { key: stopping.key });
    await using idle = await connectWs(stopping.url + path, { key: stopping.key });
    node.results.set("mmr_root", '"0x05"');
    node.held.add("mmr_root");
    client.send(request("mmr_root"));
    await until(() => node.count("mmr_root") === 1);
    const stopped = stopping[Symbol.asyncDispose]();
    assert.equal(await idle.closed, 1001);
    node.release();
    assert.equal(await client.next(), '{"jsonrpc":"2.0","id":1,"result":"0x05"}');
    assert.equal(await client.closed, 1001);
    await stopped;
  });
});

const protocolsWith = (ticket: string): readonly string[] => [
  "ledger.v1",
  `ledger.auth.${Buffer.from(ticket).toString("base64url")}`,
];

async function ticketFor(terms: object, key = gateway.key): Promise<string> {
  const response = await fetch(`${gateway.url}/v1/confidential/tickets`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(terms),
  });
  return ((await response.json()) as { ticket: string }).ticket;
}
