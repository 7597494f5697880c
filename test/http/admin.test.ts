import assert from "node:assert/strict";
import { request, type IncomingMessage, type ServerResponse } from "node:http";
import { test } from "node:test";
import { createMetrics } from "../../src/base/metrics.ts";
import { startAdmin, type Admin, type AdminOptions } from "../../src/http/admin.ts";
import type { Log } from "../../src/plugin.ts";

interface Started extends AsyncDisposable {
  readonly admin: Admin;
  readonly errors: string[];
}

async function start(more: Partial<AdminOptions> = {}): Promise<Started> {
  const errors: string[] = [];
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields, message) => errors.push(`${message} ${JSON.stringify(fields)}`),
    child: () => log,
  };
  const admin = await startAdmin({
    host: "127.0.0.1",
    port: 0,
    hosts: [],
    trustProxy: [],
    metrics: createMetrics(),
    pipelines: () => ({ routes: [] }),
    explain: () => Promise.resolve({ exchanges: [], missing: [] }),
    ready: () => ({ ready: true, checks: { journal: "ok" } }),
    service: () => undefined,
    log,
    ...more,
  });
  return { admin, errors, [Symbol.asyncDispose]: () => admin.close() };
}

async function json(response: Response): Promise<unknown> {
  assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
  return response.json();
}

test("/metrics is the metrics in Prometheus's text format", async () => {
  const metrics = createMetrics();
  metrics.counter("sluice_things_total", "Things.").with({}).add(3);
  await using started = await start({ metrics });
  const response = await fetch(`${started.admin.url}/metrics`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  assert.match(await response.text(), /^sluice_things_total 3$/m);
});

test("/pipelines contains the current pipeline", async () => {
  let loaded = 1;
  await using started = await start({ pipelines: () => ({ generation: loaded, error: null }) });
  assert.deepEqual(await json(await fetch(`${started.admin.url}/pipelines`)), {
    generation: 1,
    error: null,
  });
  loaded = 2;
  const response = await fetch(`${started.admin.url}/pipelines`);
  assert.deepEqual(await json(response), { generation: 2, error: null });
});

test("/healthz is up as soon as the process is, ready or not", async () => {
  await using started = await start({ ready: () => ({ ready: false, checks: {} }) });
  const response = await fetch(`${started.admin.url}/healthz`);
  assert.equal(response.status, 200);
  assert.deepEqual(await json(response), { status: "ok", checks: {} });
});

test("/readyz turns to 503 and lists the failing checks, and back to 200", async () => {
  let journal = "ok";
  await using started = await start({
    ready: () => ({ ready: journal === "ok", checks: { draining: "ok", journal } }),
  });
  const ask = () => fetch(`${started.admin.url}/readyz`);
  assert.equal((await ask()).status, 200);
  journal = "not writable";
  const response = await ask();
  assert.equal(response.status, 503);
  assert.deepEqual(await json(response), {
    status: "unavailable",
    checks: { draining: "ok", journal: "not writable" },
  });
  journal = "ok";
  assert.equal((await ask()).status, 200);
});

test("HEAD is answered like GET, without a body", async () => {
  await using started = await start();
  for (const path of ["/metrics", "/pipelines", "/healthz", "/readyz"]) {
    const response = await fetch(started.admin.url + path, { method: "HEAD" });
    assert.equal(response.status, 200, path);
    assert.equal(await response.text(), "");
  }
});

test("an unknown path and another method are errors in the canonical envelope", async () => {
  await using started = await start();
  for (const path of ["/", "/metrics/", "/metricsx", "/admin", "/healthz/x", "/%2e%2e"]) {
    const response = await fetch(started.admin.url + path);
    assert.equal(response.status, 404, path);
    const expected = { error: "not found", error_code: "GATEWAY_NOT_FOUND" };
    assert.deepEqual(await json(response), expected);
  }
  assert.equal((await fetch(`${started.admin.url}/%zz`)).status, 400);
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
    const response = await fetch(`${started.admin.url}/metrics?x=1`, {
      method,
      ...(method === "POST" && { body: "{", headers: { "content-type": "application/json" } }),
    });
    assert.equal(response.status, 405, method);
    assert.equal(response.headers.get("allow"), "GET, HEAD");
    assert.deepEqual(await json(response), {
      error: "method not allowed",
      error_code: "GATEWAY_INVALID_PARAMS",
      details: { reason: "method_not_allowed" },
    });
  }
});

test("an internal error is logged, and the client gets no details", async () => {
  await using started = await start({
    pipelines: () => {
      throw new Error("secret detail");
    },
    metrics: {
      contentType: "text/plain",
      render: () => Promise.reject(new Error("secret detail")),
    },
  });
  for (const path of ["/pipelines", "/metrics"]) {
    const response = await fetch(started.admin.url + path);
    assert.equal(response.status, 500);
    assert.deepEqual(await json(response), {
      error: "internal error",
      error_code: "GATEWAY_INTERNAL_ERROR",
    });
  }
  assert.equal(started.errors.length, 2);
});

test("a service answers the requests below its name, with the body unread, until another service replaces it", async () => {
  const served = (greeting: string) => ({
    admin(req: IncomingMessage, res: ServerResponse) {
      req.setEncoding("utf8").on("data", (body) => res.write(`${greeting} ${req.url} ${body}`));
      req.on("end", () => res.end());
    },
  });
  let running = served("first");
  await using started = await start({
    service: (name) => (name === "pages" ? running : name === "silent" ? {} : undefined),
  });
  const ask = async (path: string) =>
    (await fetch(started.admin.url + path, { method: "POST", body: "{" })).text();
  assert.equal(await ask("/pages"), "first /pages {");
  running = served("second");
  assert.equal(await ask("/pages/a/b?c=%20"), "second /pages/a/b?c=%20 {");
  assert.match(await ask("/silent"), /GATEWAY_NOT_FOUND/);
  assert.match(await ask("/metrics"), /method not allowed/);
});

test("a request with a foreign host name does not reach a service, and exceptions of a service are logged", async () => {
  let calls = 0;
  await using started = await start({
    service: () => ({
      admin() {
        calls++;
        throw new Error("secret detail");
      },
    }),
  });
  const { port } = new URL(started.admin.url);
  const status = await new Promise((resolve, reject) => {
    request({ port, host: "127.0.0.1", path: "/pages", headers: { host: "evil.example" } })
      .on("response", (response) => resolve(response.resume().statusCode))
      .on("error", reject)
      .end();
  });
  assert.equal(status, 403);
  assert.equal(calls, 0);
  await assert.rejects(fetch(`${started.admin.url}/pages`));
  assert.match(started.errors[0] ?? "", /an admin request failed.*pages/);
  assert.equal((await fetch(`${started.admin.url}/healthz`)).status, 200);
});

/** Sends a GET with a Host header that fetch does not allow. */
async function getAs(url: string, host: string): Promise<{ status?: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status?: number; text: string }>();
  request(url, { headers: { host } }, (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    response.on("end", () => {
      const { statusCode: status } = response;
      resolve({ text, ...(status !== undefined && { status }) });
    });
  })
    .on("error", reject)
    .end();
  return promise;
}

async function statusFor(url: string, host: string): Promise<number | undefined> {
  return (await getAs(url, host)).status;
}

test("DNS rebinding gives no access to metrics, routes or requests", async () => {
  await using started = await start({
    explain: () => Promise.resolve({ exchanges: [{}], missing: [] }),
    hosts: ["Gateway.internal"],
  });
  // /metrics had no check of the host name: finding 14.
  for (const path of ["/metrics", "/pipelines", "/explain?id=a"]) {
    const url = started.admin.url + path;
    for (const host of ["evil.example", "evil.example:9090", "localhost.evil.example", "a@b"]) {
      assert.equal(await statusFor(url, host), 403, `${path} for ${host}`);
    }
    for (const host of ["localhost", "10.0.0.7:9090", "[::1]:9090", "gateway.internal:80"]) {
      assert.equal(await statusFor(url, host), 200, `${path} for ${host}`);
    }
  }
});

test("a scraper with an unlisted host name gets an answer that names the option", async () => {
  await using started = await start();
  const { status, text } = await getAs(`${started.admin.url}/metrics`, "Sluice-0.monitoring:9090");
  assert.equal(status, 403);
  assert.deepEqual(JSON.parse(text), {
    error:
      'the host name "sluice-0.monitoring" is not allowed: add it to admin.hosts in pipeline.yaml, or use the address',
    error_code: "GATEWAY_PERMISSION_DENIED",
  });
  const odd = await getAs(`${started.admin.url}/metrics`, '"><script>');
  assert.equal(odd.status, 403);
  assert.ok(!odd.text.includes("script"));
});

test("health probes may use any name", async () => {
  await using started = await start();
  for (const path of ["/healthz", "/readyz"]) {
    assert.equal(await statusFor(started.admin.url + path, "sluice-0.monitoring"), 200, path);
  }
});

test("closing does not wait for a scraper that keeps its connection open", async () => {
  const { admin } = await start();
  const scraper = request(`${admin.url}/healthz`, { headers: { connection: "keep-alive" } });
  const closed = new Promise((resolve) => {
    scraper.on("socket", (socket) => socket.on("close", resolve));
  });
  const answered = new Promise<void>((resolve) => {
    scraper.on("response", (response) => response.resume().on("end", resolve));
  });
  scraper.end();
  await answered;
  await admin.close();
  await closed;
  await assert.rejects(fetch(`${admin.url}/healthz`));
});
