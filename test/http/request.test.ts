/** Tests of the protocol of single requests, with servers that answer wrongly, and of entity tags. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import { etagOf, matchesEtag } from "../../src/http/etag.ts";
import { sendRequest } from "../../src/http/request.ts";

async function serverOf(t: TestContext, text: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(text));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  // A server that listens on TCP has an address of this type.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const refused: readonly (readonly [name: string, answer: string])[] = [
  ["nothing", ""],
  ["another protocol", "SSH-2.0-OpenSSH_9.6\r\n"],
  [
    "a switch of protocols",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
  ],
  ["two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"],
  ["too many fields", `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`],
];
for (const [name, answer] of refused) {
  test(`rejects if the server sends ${name}`, async (t) => {
    await assert.rejects(sendRequest(await serverOf(t, answer), {}));
  });
}

test("rejects a URL or a field that cannot be sent", async () => {
  await assert.rejects(sendRequest("ftp://127.0.0.1/", {}));
  await assert.rejects(sendRequest("http://127.0.0.1:1/", { headers: { x: "a\nb" } }));
});

test("headers of the caller cannot say where the body ends", async (t) => {
  const server = createHttpServer((request, response) => void request.pipe(response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const headers = { "Content-Length": "7", "transfer-encoding": "chunked" };
  for (const body of [undefined, Buffer.from("{}")]) {
    const method = body === undefined ? "GET" : "POST";
    const answer = await sendRequest(url, { method, headers, ...(body && { body }) });
    const pieces: Buffer[] = [];
    for await (const piece of answer.body) pieces.push(piece);
    assert.equal(Buffer.concat(pieces).toString(), body?.toString() ?? "");
  }
});

test("reading and dumping reject if the body is cut", async (t) => {
  const url = await serverOf(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab");
  const read = async ({ body }: Awaited<ReturnType<typeof sendRequest>>): Promise<void> => {
    for await (const piece of body) assert.equal(piece.toString(), "ab");
  };
  await assert.rejects(read(await sendRequest(url, {})));
  await assert.rejects((await sendRequest(url, {})).dump());
});

test("a dump ends at its limit", async (t) => {
  const url = await serverOf(t, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabcdef");
  await (await sendRequest(url, {})).dump(3);
});

const etag = etagOf("content");

test("a tag depends only on the content, as text or as bytes", () => {
  assert.match(etag, /^"[\w-]{22}"$/);
  assert.equal(etagOf(Buffer.from("content")), etag);
  assert.notEqual(etagOf("other content"), etag);
});

test("If-None-Match is a list of strong or weak tags, or `*`", () => {
  for (const sent of [etag, `W/${etag}`, `"a", ${etag}`, `"a",W/${etag} , "b"`, "*"]) {
    assert.equal(matchesEtag(sent, etag), true, sent);
  }
  for (const sent of [undefined, "", '"a"', etag.slice(1), etag.toUpperCase(), "**"]) {
    assert.equal(matchesEtag(sent, etag), false, String(sent));
  }
});
