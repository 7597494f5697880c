import assert from "node:assert/strict";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { HttpClient } from "../../../../../plugins/ledger/ledger/pool/http-client.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { cert, key } from "../../../../certificate.ts";
import { SingleCall } from "./recorded-request.ts";
import { echo, response, result, startNode } from "./scripted-node.ts";
import { silentLog } from "../../../../test-log.ts";

function clientOf(url: string): HttpClient {
  return new HttpClient({
    url: new URL(url),
    connections: 2,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 1_000_000,
    clock: manualClock(),
    log: silentLog,
  });
}

async function endingOf(client: HttpClient): Promise<string | undefined> {
  const call = new SingleCall();
  client.send(call);
  const ending = await call.ending;
  return ending.kind === "failed" ? `${call.cause} ${call.errno}` : ending.text;
}

test("https: a node with an untrusted certificate is refused, and the error code is reported", async () => {
  await using node = await startNode(echo, { tls: { key, cert } });
  const client = clientOf(node.url);
  assert.equal(await endingOf(client), "refused DEPTH_ZERO_SELF_SIGNED_CERT");
  assert.equal(node.received.length, 0);
  await client.close();
});

test("https: a trusted node is called by name or address, on one connection, with SNI if it has a name", async () => {
  const before = getCACertificates("default");
  setDefaultCACertificates([...before, cert]);
  try {
    const large = JSON.stringify("x".repeat(300_000));
    await using node = await startNode(
      (received) => received.socket.write(response(result(received.call().id, large))),
      { tls: { key, cert } },
    );
    for (const [url, servername] of [
      [node.url, false],
      [`https://localhost:${node.port}`, "localhost"],
    ] as const) {
      const client = clientOf(url);
      assert.equal(await endingOf(client), large);
      assert.equal(await endingOf(client), large);
      // startNode with tls passes TLS sockets to the script.
      const socket = node.received.at(-1)?.socket as TLSSocket;
      assert.equal(socket.servername, servername);
      assert.equal(node.received.at(-1)?.nth, 2);
      await client.close();
      await node.deserted();
    }
  } finally {
    setDefaultCACertificates(before);
  }
});
