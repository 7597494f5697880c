/** The client of `host.upstream` and its function `fetch`: requests, answers, failures, permissions and the stop. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createHost } from "../../../src/pipeline/load/plugin-host.ts";
import { pluginCounts } from "../../../src/pipeline/observe/plugin-counts.ts";
import type { Log, UpstreamClientOptions, UpstreamRequest } from "../../../src/plugin.ts";
import { testResources } from "../../pipeline/harness.ts";
import { deadPort, httpUpstream, rawUpstream } from "../forwarding-gateway.ts";

const log: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
const config = { environment: "dev", file: "/pipeline.yaml" } as const;

function hostWith(hosts: readonly string[]) {
  const plugin = { name: "acme", permissions: { hosts } };
  const resources = testResources(log);
  const counts = pluginCounts({ name: "acme", kind: "step" }, resources);
  return createHost(
    plugin,
    { mode: "enforce", strict: true },
    config,
    resources,
    counts,
    () => undefined,
  );
}

/** Returns a client for `http://127.0.0.1:PORT` and the path. Dispose of the result to stop its plugin. */
function clientOf(port: number, options: UpstreamClientOptions = {}, path = "") {
  const { host, close } = hostWith([`127.0.0.1:${port}`]);
  const client = host.upstream(`http://127.0.0.1:${port}${path}`, options);
  return { client, close, [Symbol.asyncDispose]: close };
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
  await using queried = clientOf(upstream.port, {}, "/base?key=1");
  const urlOf = async (path?: string): Promise<unknown> => {
    const { body } = await queried.client.request(path === undefined ? {} : { path });
    return (JSON.parse(body.toString()) as { url: string }).url;
  };
  assert.deepEqual([await urlOf(), await urlOf("/a")], ["/base?key=1", "/base/a"]);
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
  await assert.rejects(opened.client.request(), ({ stack, message }: Error) => {
    assert.match(message, /did not answer: no connection \(ECONNREFUSED\) at 127/);
    assert.equal(stack, `Error: ${message}`, "the frames would be those of a socket");
    return true;
  });
  assert.equal(opened.client.ready(), `no answer from 127.0.0.1:${port}`);
  await using upstream = await rawUpstream((socket) => socket.end("garbage\r\n\r\n"));
  await using broken = clientOf(upstream.port);
  await assert.rejects(broken.client.request(), /a malformed answer/);
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
  const withPassword = "https://user:secret@api.acme.com/";
  assert.throws(() => host.upstream(withPassword), /credentials for api\.acme\.com in a header/);
  const any = hostWith(["*"]);
  any.host.upstream("http://127.0.0.1:9000");
  await any.close();
  await close();
  assert.throws(() => host.upstream("https://api.acme.com/"), /while it was not running/);
});

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly tenant?: string;
  readonly type?: string;
  readonly body: string;
}

function mirror() {
  return httpUpstream((req, res) => {
    let body = "";
    req.setEncoding("utf8").on("data", (text: string) => (body += text));
    req.on("end", () => {
      const { method, url, headers } = req;
      const cookies = ["set-cookie", "a=1", "set-cookie", "b=2"];
      res.writeHead(201, ["content-type", "application/json", "X-A", "1", "x-a", "2", ...cookies]);
      const seen = { method, url, tenant: headers["x-tenant"], type: headers["content-type"] };
      res.end(JSON.stringify({ ...seen, body }));
    });
  });
}

test("fetch sends standard requests and returns standard responses", async () => {
  await using upstream = await mirror();
  await using opened = clientOf(upstream.port, {}, "/base");
  // Libraries call the function without the client.
  const { fetch } = opened.client;
  const base = `http://127.0.0.1:${upstream.port}/base`;
  const sent = async (...[input, init]: Parameters<typeof fetch>): Promise<Seen> => {
    const response = await fetch(input, init);
    assert.ok(response instanceof Response && response.ok);
    assert.equal(response.status, 201);
    assert.equal(response.headers.get("X-A"), "1, 2");
    assert.deepEqual(response.headers.getSetCookie(), ["a=1", "b=2"]);
    return (await response.json()) as Seen;
  };
  assert.deepEqual(await sent(base), { method: "GET", url: "/base", body: "" });
  assert.equal((await sent(new URL(`${base}/a/../b?c=d#e`))).url, "/base/b?c=d");
  assert.equal((await sent(`${base}?c=d`)).url, "/base?c=d");

  const init = { method: "post", headers: new Headers({ "X-Tenant": "blue" }), body: "hellö" };
  const type = "text/plain;charset=UTF-8";
  const seen = { method: "POST", url: "/base/a", tenant: "blue", type, body: "hellö" };
  assert.deepEqual(await sent(`${base}/a`, init), seen);
  assert.deepEqual(await sent(new Request(`${base}/a`, init)), seen);
  const changed = await sent(new Request(`${base}/a`, init), { method: "PUT" });
  assert.deepEqual(changed, { ...seen, method: "PUT" });
  for (const body of [Buffer.from("bytes"), new TextEncoder().encode("bytes")]) {
    assert.equal((await sent(base, { method: "POST", body })).body, "bytes");
  }
  const form = await sent(base, { method: "POST", body: new URLSearchParams({ a: "b c" }) });
  assert.deepEqual(
    [form.type, form.body],
    ["application/x-www-form-urlencoded;charset=UTF-8", "a=b+c"],
  );
  assert.equal((await sent(base, { method: "DELETE", body: null, signal: null })).method, "DELETE");
  assert.equal(opened.client.ready(), true);
});

test("fetch returns statuses without a body, answers to HEAD, and redirects", async () => {
  await using upstream = await httpUpstream((req, res) => {
    const status = Number(req.url?.slice(1));
    res.writeHead(status, status === 302 ? { location: "/204", "content-length": 2 } : {});
    res.end(status === 302 ? "ok" : undefined);
  });
  await using opened = clientOf(upstream.port);
  const { fetch } = opened.client;
  const origin = `http://127.0.0.1:${upstream.port}`;
  for (const status of [204, 205, 304]) {
    const response = await fetch(`${origin}/${status}`);
    assert.equal(response.status, status);
    assert.equal(response.body, null);
    assert.equal(await response.text(), "");
  }
  const redirect = await fetch(`${origin}/302`);
  assert.deepEqual([redirect.status, redirect.headers.get("location")], [302, "/204"]);
  assert.equal(await redirect.text(), "ok");
  const head = await fetch(`${origin}/302`, { method: "HEAD" });
  assert.deepEqual([head.headers.get("content-length"), await head.text()], ["2", ""]);
  assert.equal((await fetch(`${origin}/500`)).ok, false);
});

test("fetch returns bytes unchanged", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  await using upstream = await httpUpstream((req, res) => void req.pipe(res));
  await using opened = clientOf(upstream.port);
  const url = `http://127.0.0.1:${upstream.port}/`;
  const response = await opened.client.fetch(url, { method: "POST", body: bytes.subarray(1) });
  assert.deepEqual(await response.bytes(), bytes.subarray(1));
});

test("fetch refuses every address but those below the URL of the client", async () => {
  let count = 0;
  await using upstream = await httpUpstream((_, res) => {
    count++;
    res.end();
  });
  await using opened = clientOf(upstream.port, {}, "/base");
  await using withSlash = clientOf(upstream.port, {}, "/base/");
  const origin = `http://127.0.0.1:${upstream.port}`;
  const others = [
    `http://localhost:${upstream.port}/base`,
    `https://127.0.0.1:${upstream.port}/base`,
    `http://127.0.0.1:9/base`,
    `${origin}/`,
    `${origin}/basement`,
    `${origin}/base/../admin?token=secret`,
    `${origin}/base/%2e%2E/admin`,
    `${origin}//base`,
    "data:,base",
  ];
  for (const url of others) {
    for (const input of [url, new URL(url), new Request(url)]) {
      const refused = assert.rejects(opened.client.fetch(input), (error) => {
        assert.ok(error instanceof TypeError);
        assert.ok(error.message.startsWith(`this client only reaches ${origin}/base, got `));
        assert.doesNotMatch(error.message, /secret/);
        return true;
      });
      await refused;
    }
  }
  const message = `this client only reaches ${origin}/base/, got ${origin}/base`;
  await assert.rejects(withSlash.client.fetch(`${origin}/base`), { name: "TypeError", message });
  assert.equal((await withSlash.client.fetch(`${origin}/base/`)).status, 200);
  await assert.rejects(opened.client.fetch("/base"), TypeError, "a relative address");
  await assert.rejects(opened.client.fetch(`http://user:password@127.0.0.1/base`), TypeError);
  assert.equal(count, 1);
  assert.equal(opened.client.ready(), true);
});

test("fetch refuses a stream as the body, and what the standard refuses", async () => {
  await using upstream = await mirror();
  await using opened = clientOf(upstream.port);
  const { fetch } = opened.client;
  const url = `http://127.0.0.1:${upstream.port}/`;
  const stream = new Blob(["a"]).stream();
  const streamed: RequestInit = { method: "POST", body: stream, duplex: "half" };
  await assert.rejects(fetch(url, streamed), /^TypeError: a stream cannot be sent as the body/);
  assert.equal(stream.locked, false);
  const impossible: RequestInit[] = [
    { method: "GET", body: "a" },
    { method: "GE T" },
    { headers: { "x-a": "1\r\nx-b: 2" } },
    { headers: { host: "other" } },
  ];
  for (const init of impossible) await assert.rejects(fetch(url, init), TypeError);
  // A Request has its body in memory or reads it from its stream.
  const request = new Request(url, {
    method: "POST",
    body: new Blob(["a"]).stream(),
    duplex: "half",
  });
  assert.equal(((await (await fetch(request)).json()) as Seen).body, "a");
  await assert.rejects(fetch(request), TypeError, "its body has been read");
});
