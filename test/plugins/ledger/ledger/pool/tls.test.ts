import assert from "node:assert/strict";
import { test } from "node:test";
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { HttpClient } from "../../../../../plugins/ledger/ledger/pool/http-client.ts";
import { manualClock } from "../../../../../src/testing/clock.ts";
import { SingleCall, silent } from "./asking.ts";
import { echo, response, result, startNode } from "./scripted-node.ts";

// A self-signed certificate for localhost and 127.0.0.1, valid until 2126, and its key, which protect nothing.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgcanFLMfSt5Bj8T71
RSrEErfyZkaJJ4WZsjXpiJWQMoyhRANCAAS+CbG5F+uMyfvf+vjJcE3Q1cL2pc1O
tr32PCS5KX6A/JTsmIgseIC5BFzSe4btBPZJ1twGvpcyFBlinkyOQDcM
-----END PRIVATE KEY-----
`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUcfQfWIDtS3aDHQq0nyc0vC/xo1cwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTAwMjIwMFoYDzIxMjYxMDI4
MDAyMjAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAS+CbG5F+uMyfvf+vjJcE3Q1cL2pc1Otr32PCS5KX6A/JTsmIgseIC5
BFzSe4btBPZJ1twGvpcyFBlinkyOQDcMo28wbTAdBgNVHQ4EFgQUWuxKGjdRzS4h
soT1b/e0rLNHJsswHwYDVR0jBBgwFoAUWuxKGjdRzS4hsoT1b/e0rLNHJsswDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDRwAwRAIgVL4u0BpWpXx5+8mQGxPfcGV51erWZryuKsy47HMeYdUCIC2u
Hd3Sg3vulHL2CUGtt80bFljPx2HYJGBISD4uMVMF
-----END CERTIFICATE-----
`;

function clientOf(url: string): HttpClient {
  return new HttpClient({
    url: new URL(url),
    connections: 2,
    connectMs: 1_000,
    headersMs: 5_000,
    idleMs: 2_000,
    answerBytes: 1_000_000,
    clock: manualClock(),
    log: silent,
  });
}

async function endingOf(client: HttpClient): Promise<string | undefined> {
  const call = new SingleCall();
  client.send(call);
  const ending = await call.ending;
  return ending.kind === "failed" ? call.cause : ending.text;
}

test("https: a node with an untrusted certificate is refused, and the error code is reported", async () => {
  await using node = await startNode(echo, { tls: { key, cert } });
  const client = clientOf(node.url);
  assert.equal(await endingOf(client), "refused");
  assert.equal(client.lastError, "DEPTH_ZERO_SELF_SIGNED_CERT");
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
