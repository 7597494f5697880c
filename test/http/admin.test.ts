/** The admin listener of a gateway with one service, whose hooks the tests replace. */
import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { version } from "../../src/base/version.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { startAdmin } from "../../src/http/admin.ts";
import { defineService } from "../../src/plugin.ts";
import { keepingLog } from "../../src/testing/keeping-log.ts";
import { startWithServices, type ServiceGateway } from "./service-gateway.ts";

let state: true | string = true;

const pages = defineService({
  name: "pages",
  description: "Echoes requests.",
  options: {
    type: "object",
    properties: { greeting: { type: "string", default: "first" } },
    additionalProperties: false,
  },
  start({ greeting }: { readonly greeting: string }, host) {
    host.metrics.counter("acme_things_total", "Things.").with({}).add(3);
    return {
      service: {},
      ready: () => state,
      admin(req, res) {
        req.setEncoding("utf8").on("data", (body) => res.write(`${greeting} ${req.url} ${body}`));
        req.on("end", () => res.end("."));
      },
    };
  },
});
const silent = defineService({
  name: "silent",
  description: "Serves nothing.",
  start: () => ({ service: {} }),
});

let gateway: ServiceGateway;
let url = "";
before(async () => {
  const file = { admin: { port: 0, hosts: ["Gateway.internal"] } };
  gateway = await startWithServices([pages, silent], { file });
  url = gateway.adminUrl;
});
after(() => gateway[Symbol.asyncDispose]());

async function json(response: Response): Promise<unknown> {
  assert.match(response.headers.get("content-type") ?? "", /^application\/json/);
  return response.json();
}

test("/metrics is the metrics in Prometheus's text format", async () => {
  const response = await fetch(`${url}/metrics`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const lines = (await response.text()).split("\n");
  assert.ok(lines.includes("acme_things_total 3"));
  const build = `version="${version}",node="${process.versions.node}"`;
  assert.ok(lines.includes(`sluice_build_info{${build}} 1`));
});

test("/pipelines contains the current pipeline", async () => {
  const paths = async (): Promise<string[]> => {
    const { routes } = (await json(await fetch(`${url}/pipelines`))) as {
      routes: { path: string }[];
    };
    return routes.map(({ path }) => path);
  };
  assert.deepEqual(await paths(), ["/"]);
  assert.deepEqual(await gateway.reload({ routes: [{ path: "/other", to: "page" }] }), []);
  assert.deepEqual(await paths(), ["/other"]);
});

test("/readyz is 503 while a check fails, and /healthz is not", async () => {
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
  state = "not writable";
  const response = await fetch(`${url}/readyz`);
  assert.equal(response.status, 503);
  assert.deepEqual(await json(response), {
    status: "unavailable",
    checks: { draining: "ok", "service pages": "not writable", journal: "ok", accounts: "ok" },
    backends: {},
  });
  const health = await fetch(`${url}/healthz`);
  assert.deepEqual([health.status, await json(health)], [200, { status: "ok", checks: {} }]);
  state = true;
  assert.equal((await fetch(`${url}/readyz`)).status, 200);
});

test("HEAD is answered like GET, without a body", async () => {
  for (const path of ["/metrics", "/pipelines", "/healthz", "/readyz"]) {
    const response = await fetch(url + path, { method: "HEAD" });
    assert.equal(response.status, 200, path);
    assert.equal(await response.text(), "");
  }
});

test("an unknown path and another method are errors in the canonical envelope", async () => {
  for (const path of ["/", "/metrics/", "/metricsx", "/admin", "/healthz/x", "/%2e%2e"]) {
    const response = await fetch(url + path);
    assert.equal(response.status, 404, path);
    const expected = { error: "not found", error_code: "GATEWAY_NOT_FOUND" };
    assert.deepEqual(await json(response), expected);
  }
  assert.equal((await fetch(`${url}/%zz`)).status, 400);
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
    const response = await fetch(`${url}/metrics?x=1`, {
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

// No plugin can cause such an error, because the gateway catches what the hooks of plugins throw.
test("an internal error is logged, and the client gets no details", async () => {
  const lines: string[] = [];
  const admin = await startAdmin({
    host: "127.0.0.1",
    port: 0,
    hosts: [],
    trustProxy: [],
    pipelines: () => {
      throw new Error("secret detail");
    },
    metrics: { ...createMetrics(), render: () => Promise.reject(new Error("secret detail")) },
    explain: () => Promise.resolve({ exchanges: [], missing: [] }),
    ready: () => ({ ready: true, checks: {} }),
    service: () => undefined,
    log: keepingLog(lines),
  });
  try {
    for (const path of ["/pipelines", "/metrics"]) {
      const response = await fetch(admin.url + path);
      assert.equal(response.status, 500);
      assert.deepEqual(await json(response), {
        error: "internal error",
        error_code: "GATEWAY_INTERNAL_ERROR",
      });
    }
  } finally {
    await admin.close();
  }
  assert.equal(lines.length, 2);
});

test("a service answers the requests below its name, with the body unread, until another service replaces it", async () => {
  const ask = async (path: string): Promise<string> =>
    (await fetch(url + path, { method: "POST", body: "{" })).text();
  assert.equal(await ask("/pages"), "first /pages {.");
  assert.deepEqual(await gateway.reload({ pages: { greeting: "second" } }), []);
  assert.equal(await ask("/pages/a/b?c=%20"), "second /pages/a/b?c=%20 {.");
  assert.match(await ask("/silent"), /GATEWAY_NOT_FOUND/);
  assert.match(await ask("/metrics"), /method not allowed/);
});

/** Sends a GET with a Host header that fetch does not allow. */
async function getAs(path: string, host: string): Promise<{ status?: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status?: number; text: string }>();
  request(url + path, { headers: { host } }, (response) => {
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

async function statusFor(path: string, host: string): Promise<number | undefined> {
  return (await getAs(path, host)).status;
}

test("DNS rebinding gives no access to metrics, routes, requests or services", async () => {
  // /metrics had no check of the host name: finding 14.
  for (const [path, allowed] of [
    ["/metrics", 200],
    ["/pipelines", 200],
    ["/explain?id=unknown", 404],
    ["/pages", 200],
  ] as const) {
    for (const host of ["evil.example", "evil.example:9090", "localhost.evil.example", "a@b"]) {
      assert.equal(await statusFor(path, host), 403, `${path} for ${host}`);
    }
    for (const host of ["localhost", "10.0.0.7:9090", "[::1]:9090", "gateway.internal:80"]) {
      assert.equal(await statusFor(path, host), allowed, `${path} for ${host}`);
    }
  }
  // Health probes may use any name.
  for (const path of ["/healthz", "/readyz"]) {
    assert.equal(await statusFor(path, "sluice-0.monitoring"), 200, path);
  }
});

test("a scraper with an unlisted host name gets an answer that names the option", async () => {
  const { status, text } = await getAs("/metrics", "Sluice-0.monitoring:9090");
  assert.equal(status, 403);
  assert.deepEqual(JSON.parse(text), {
    error:
      'the host name "sluice-0.monitoring" is not allowed: add it to admin.hosts in pipeline.yaml, or use the address',
    error_code: "GATEWAY_PERMISSION_DENIED",
  });
  const odd = await getAs("/metrics", '"><script>');
  assert.equal(odd.status, 403);
  assert.ok(!odd.text.includes("script"));
});

test("closing does not wait for a scraper that keeps its connection open", async () => {
  await using other = await startWithServices([]);
  const scraper = request(`${other.adminUrl}/healthz`, { headers: { connection: "keep-alive" } });
  const closed = new Promise((resolve) => {
    scraper.on("socket", (socket) => socket.on("close", resolve));
  });
  const answered = new Promise<void>((resolve) => {
    scraper.on("response", (response) => response.resume().on("end", resolve));
  });
  scraper.end();
  await answered;
  await other.gateway.stop();
  await closed;
  await assert.rejects(fetch(`${other.adminUrl}/healthz`));
});
