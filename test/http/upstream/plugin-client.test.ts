/** The client of `host.upstream`: requests, answers, failures, permissions and the stop. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { UpstreamRequest } from "../../../src/plugin.ts";
import { deadPort, httpUpstream, rawUpstream } from "../forwarding-gateway.ts";
import { clientOf, hostWith } from "./client-of.ts";

function mirror() {
  return httpUpstream((req, res) => {
    let body = "";
    req.setEncoding("utf8").on("data", (text: string) => (body += text));
    req.on("end", () => {
      const { method, url, headers } = req;
      res.writeHead(201, ["X-A", "1", "x-a", "2"]);
      res.end(JSON.stringify({ method, url, tenant: headers["x-tenant"], body }));
    });
  });
}

test("sends a request and returns the whole answer, over kept connections", async () => {
  await using upstream = await mirror();
  await using opened = clientOf(upstream.port, {}, "/base/");
  const { client } = opened;
  for (let i = 0; i < 2; i++) {
    const headers = { "X-Tenant": "blue" };
    const answer = await client.request({ method: "POST", path: "/a?b=c", headers, body: "hellö" });
    assert.equal(answer.status, 201);
    assert.equal(answer.headers["x-a"], "1, 2");
    const seen: unknown = JSON.parse(answer.body.toString());
    assert.deepEqual(seen, {
      method: "POST",
      url: "/base/a?b=c",
      tenant: "blue",
      body: "hellö",
    });
  }
  const { url } = JSON.parse((await client.request()).body.toString()) as { url: string };
  assert.equal(url, "/base/");
  assert.equal(client.ready(), true);
});

test("returns headers that a Reply can repeat: several cookies, and nothing of the connection", async () => {
  await using upstream = await httpUpstream((_, res) => {
    res.writeHead(200, [
      "set-cookie",
      "a=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT",
      "Set-Cookie",
      "b=2",
      "connection",
      "keep-alive, x-hop",
      "x-hop",
      "1",
      "content-length",
      "2",
      "etag",
      '"1"',
    ]);
    res.end("ok");
  });
  await using opened = clientOf(upstream.port);
  const { headers, replyHeaders } = await opened.client.request();
  assert.equal(headers["set-cookie"], undefined);
  assert.deepEqual(
    replyHeaders.filter((_, at) => replyHeaders[at - (at % 2)] !== "Date"),
    [
      "set-cookie",
      "a=1; Expires=Thu, 01 Jan 2026 00:00:00 GMT",
      "Set-Cookie",
      "b=2",
      "etag",
      '"1"',
    ],
  );
});

test("rejects without an answer, and is not ready until the next one", async () => {
  const port = await deadPort();
  await using opened = clientOf(port);
  await assert.rejects(
    opened.client.request(),
    /did not answer: no connection \(ECONNREFUSED\) at 127/,
  );
  assert.equal(opened.client.ready(), `no answer from 127.0.0.1:${port}`);
  await using upstream = await rawUpstream((socket) => socket.end("garbage\r\n\r\n"));
  await using broken = clientOf(upstream.port);
  await assert.rejects(broken.client.request(), /a malformed answer/);
});

test("the error for a missing answer has one line, because its frames are those of a socket", async () => {
  await using opened = clientOf(await deadPort());
  await assert.rejects(opened.client.request(), ({ stack, message }: Error) => {
    assert.equal(stack, `Error: ${message}`);
    return true;
  });
});

test("rejects an answer that is larger than the limit", async () => {
  await using upstream = await httpUpstream((_, res) => void res.end("x".repeat(100)));
  await using opened = clientOf(upstream.port, { maxAnswerBytes: 10 });
  await assert.rejects(opened.client.request(), /above the size limit/);
});

test("rejects at the time limit, and when the signal aborts", async () => {
  await using upstream = await httpUpstream(() => {});
  await using opened = clientOf(upstream.port, { answerMs: 20 });
  await assert.rejects(opened.client.request(), /no answer within 20 ms/);
  await using patient = clientOf(upstream.port);
  const abort = new AbortController();
  const running = patient.client.request({ signal: abort.signal });
  abort.abort(new Error("no longer needed"));
  await assert.rejects(running, /no longer needed/);
  await assert.rejects(patient.client.request({ signal: abort.signal }), /no longer needed/);
  assert.equal(patient.client.ready(), true);
});

test("the stop of the plugin ends the requests in flight", async () => {
  const reached = Promise.withResolvers<void>();
  await using upstream = await httpUpstream(() => reached.resolve());
  const { client, close } = clientOf(upstream.port);
  const running = assert.rejects(client.request(), /client was closed/);
  await reached.promise;
  await close();
  await running;
  await assert.rejects(client.request(), /client was closed/);
});

test("refuses what HTTP/1.1 cannot express", async () => {
  await using upstream = await mirror();
  await using opened = clientOf(upstream.port);
  const impossible: readonly UpstreamRequest[] = [
    { method: "GET /x HTTP/1.1" },
    { path: "/a b" },
    { path: "a" },
    { headers: { "x-a": "1\r\nx-b: 2" } },
    { headers: { host: "other" } },
  ];
  for (const request of impossible) {
    await assert.rejects(opened.client.request(request), TypeError, JSON.stringify(request));
  }
});

test("connects only to servers that the manifest lists", async () => {
  const { host, close } = hostWith(["api.acme.com:443", "[::1]:80"]);
  host.upstream("https://api.acme.com/v1");
  host.upstream("http://[::1]/");
  for (const url of ["http://api.acme.com/", "https://acme.com/", "https://api.acme.com:444/"]) {
    assert.throws(() => host.upstream(url), /must list the server ".*" under `permissions.hosts`/);
  }
  assert.throws(() => host.upstream("ftp://api.acme.com:443/"), /expected an http or https URL/);
  const any = hostWith(["*"]);
  any.host.upstream("http://127.0.0.1:9000");
  await any.close();
  await close();
  assert.throws(() => host.upstream("https://api.acme.com/"), /while it was not running/);
});
