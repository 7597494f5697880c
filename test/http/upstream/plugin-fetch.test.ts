/** The function `fetch` of the client of `host.upstream`: requests, responses, refused addresses and failures. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { httpUpstream } from "../forwarding-gateway.ts";
import { clientOf } from "./client-of.ts";

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
      res.writeHead(201, {
        "content-type": "application/json",
        "x-a": "1",
        "set-cookie": ["a=1", "b=2"],
      });
      const seen = { method, url, tenant: headers["x-tenant"], type: headers["content-type"] };
      res.end(JSON.stringify({ ...seen, body }));
    });
  });
}

test("sends standard requests and returns standard responses", async () => {
  await using upstream = await mirror();
  await using opened = clientOf(upstream.port, {}, "/base");
  // Libraries call the function without the client.
  const { fetch } = opened.client;
  const base = `http://127.0.0.1:${upstream.port}/base`;
  const sent = async (...[input, init]: Parameters<typeof fetch>): Promise<Seen> => {
    const response = await fetch(input, init);
    assert.ok(response instanceof Response && response.ok);
    assert.equal(response.status, 201);
    assert.equal(response.headers.get("X-A"), "1");
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

test("returns statuses without a body, answers to HEAD, and redirects", async () => {
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

test("returns bytes unchanged", async () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  await using upstream = await httpUpstream((req, res) => void req.pipe(res));
  await using opened = clientOf(upstream.port);
  const url = `http://127.0.0.1:${upstream.port}/`;
  const response = await opened.client.fetch(url, { method: "POST", body: bytes.subarray(1) });
  assert.deepEqual(await response.bytes(), bytes.subarray(1));
});

test("refuses every address but those below the URL of the client", async () => {
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

test("refuses a stream as the body, and what the standard refuses", async () => {
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
