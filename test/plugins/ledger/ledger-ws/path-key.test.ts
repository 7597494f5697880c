/** The key in the path has the same effect as one in the header, and no output for operators shows it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { closed, listening } from "../../../e2e/rpc-node.ts";
import { until } from "../until.ts";
import { request } from "../ledger/fixture.ts";
import { TextNode } from "./text-node.ts";
import { connectWs, refusalOf } from "./ws-client.ts";

const shipped = await readFile(new URL("../../../../pipeline.yaml", import.meta.url), "utf8");

const node = new TextNode();
const traces: Buffer[] = [];
const collector = createServer((req, res) => {
  req.on("data", (chunk: Buffer) => traces.push(chunk));
  req.on("end", () => res.end());
});
let gateway: TestGateway;

before(async () => {
  await node.start();
  process.env["OTEL_EXPORTER_OTLP_ENDPOINT"] = await listening(collector);
  gateway = await startTestGateway({
    pipeline: shipped,
    env: { LEDGER_RPC_URL: node.url },
  });
  await until(async () => (await fetch(`${gateway.url}/readyz`)).ok);
});
after(async () => {
  delete process.env["OTEL_EXPORTER_OTLP_ENDPOINT"];
  await gateway[Symbol.asyncDispose]();
  await closed(collector);
  await node.stop();
});

/** All forms in which a key could be recognised: its text and its hexadecimal part. */
const partsOf = (key: string): readonly string[] => [key, key.slice(-32), key.slice(-32, -8)];

describe("a key in the path", () => {
  it("opens the connection, and no log, trace, metric, explanation or page of the operator shows it", async () => {
    const { key } = gateway;
    const encoded = key.replace("g", "%67").replace("_", "%5F");
    const url = `${gateway.url}/v1/ledger/ws`;
    for (const segment of [key, encoded]) {
      const client = await connectWs(`${url}/${segment}?x=1`, {
        headers: { "x-request-id": "of-key" },
      });
      assert.match(await client.ask(request("system_chain")), /"result":"Test"/);
      client.socket.close();
      assert.equal(await client.closed, 1005);
    }
    // Misuses: another method, no upgrade, further segments, a key that is cut off.
    const { status } = await fetch(`${url}/${encoded}`, { method: "POST", body: key });
    assert.equal(status, 405);
    assert.equal((await fetch(`${url}/${encoded}`)).status, 426);
    assert.equal((await fetch(`${url}/${encoded}/`)).status, 404);
    assert.equal((await fetch(`${url}/${encoded}/x`)).status, 404);
    const wrong = await refusalOf(`${url}/${key.slice(0, -1)}`);
    assert.deepEqual(wrong, [401, "GATEWAY_UNAUTHORIZED"]);
    const similar = ["//v1/ledger/ws/", "/V1/ledger/ws/", "/v1/ledger/ws%2F", "/ws/%ff"];
    for (const path of similar) {
      for (const text of [key, encoded, encoded.toUpperCase()]) {
        const { status: refused } = await fetch(gateway.url + path + text);
        assert.ok(refused === 404 || refused === 429, String(refused));
      }
    }
    await until(() => gateway.gateway.listener.running === 0);

    const pages: string[] = [];
    for (const page of ["metrics", "pipelines", "explain?id=of-key", "readyz", "dashboard"]) {
      pages.push(await (await fetch(`${gateway.adminUrl}/${page}`)).text());
    }
    assert.match(pages[2]!, /\/v1\/ledger\/ws\/\{key\}/);
    await gateway[Symbol.asyncDispose]();
    assert(gateway.lines.some((line) => line.includes('"path":"/v1/ledger/ws/{key}"')));
    assert(traces.length > 0, "the traces were exported at the stop");
    const seen = [...gateway.lines, ...pages, Buffer.concat(traces).toString("latin1")].join("\n");
    const folded = seen.toLowerCase();
    for (const part of [...partsOf(key), encoded])
      assert(!folded.includes(part.toLowerCase()), part);
    assert(seen.includes("/v1/ledger/ws/{key}"));
  });
});
