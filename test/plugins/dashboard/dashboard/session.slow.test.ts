/** The page of the dashboard, its sessions, and the requests that it refuses. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, before, test } from "node:test";
import { startGateway, type Gateway } from "../../../../src/gateway/gateway.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { ask, signIn, startWatched, type Watched } from "./gateway.ts";
import { silentLog } from "../../../test-log.ts";
import { withFolderAccounts } from "../../billing/accounts/open-accounts.ts";

function restart({ folder }: Watched): Promise<Gateway> {
  return startGateway({
    configFile: join(folder, "pipeline.yaml"),
    env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") },
    log: silentLog,
    watch: false,
    drainDelaySeconds: 0,
  });
}

/** The name of the cookie contains the port. */
function renamedFor({ adminUrl }: Pick<Gateway, "adminUrl">, cookie: string): string {
  return cookie.replace(/^[^=]+/, `sluice_dashboard_${new URL(adminUrl).port}`);
}

/** Sends a request with headers that fetch does not allow (Host, Sec-Fetch-Site). */
function raw(
  { adminUrl }: Watched,
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number; headers: Record<string, unknown>; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<typeof raw>>>();
  request(adminUrl + path, { headers }, (response) => {
    let text = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => (text += chunk));
    response.on("end", () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
    );
  })
    .on("error", reject)
    .end();
  return promise;
}

/** For tests that need no other gateway, with the sessions of two users. An address may sign in ten times. */
let shared: Watched;
let session: string;
let planted: string;
before(async () => {
  shared = await startWatched();
  session = await signIn(shared, shared.key);
  planted = await signIn(shared, shared.tenant.key);
});
after(() => shared[Symbol.asyncDispose]());

test("the page needs no session, and neither the page nor its files contain inline scripts or styles", async () => {
  const response = await fetch(`${shared.adminUrl}/dashboard`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/html; charset=utf-8");
  const html = await response.text();
  assert.doesNotMatch(html, /<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=/);
  const paths = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
  assert.ok(paths.length >= 5, "the page loads its files");
  assert.ok(paths.includes("/dashboard/assets/views/live.js"), "without waiting for other modules");
  assert.ok(!paths.includes("/dashboard/assets/lib/uplot.js"), "charts are not needed at first");
  for (const path of paths) {
    const file = await fetch(shared.adminUrl + path);
    assert.equal(file.status, 200, path);
    assert.equal(file.headers.get("content-encoding"), "gzip", path);
    const etag = file.headers.get("etag") ?? "";
    await file.arrayBuffer();
    const again = await fetch(shared.adminUrl + path, { headers: { "if-none-match": etag } });
    assert.equal(again.status, 304, path);
  }
});

test("every answer has the protective headers, including errors", async () => {
  for (const path of ["", "/", "/assets/main.js", "/api/live", "/none"]) {
    const { headers } = await fetch(`${shared.adminUrl}/dashboard${path}`);
    const policy = headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/, path);
    assert.match(policy, /frame-ancestors 'none'; require-trusted-types-for 'script'/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    assert.equal(headers.get("x-frame-options"), "DENY");
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.equal(headers.get("cross-origin-opener-policy"), "same-origin");
    const isFile = path === "" || path === "/" || path.includes("assets");
    assert.equal(headers.get("cache-control"), isFile ? "no-cache" : "no-store", path);
  }
});

test("other pages of the listener do not have the headers of the dashboard, and health checks accept any host", async () => {
  for (const path of ["/healthz", "/readyz", "/metrics", "/pipelines"]) {
    const response = await fetch(shared.adminUrl + path, { headers: { "x-other": "1" } });
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("content-security-policy"), null, path);
    const isHealth = path.endsWith("z");
    const { status } = await raw(shared, path, { host: "anything.example" });
    assert.equal(status, isHealth ? 200 : 403, path);
  }
});

test("a session begins with a key, is a cookie that scripts cannot read, and ends permanently", async () => {
  const entered = await ask(shared, "session", { body: { key: shared.key } });
  assert.equal(entered.status, 200);
  assert.deepEqual(entered.body, { key_id: shared.keyId });
  const set = entered.headers.get("set-cookie") ?? "";
  assert.match(set, /; Path=\/dashboard; Max-Age=28800; HttpOnly; SameSite=Strict$/);
  assert.ok(!set.includes(shared.key), "the cookie does not hold the key");
  const cookie = set.split(";", 1)[0] ?? "";
  const { body } = await ask(shared, "session", { cookie });
  assert.equal(body.signed_in, true);
  assert.equal(body.scope, "platform");
  assert.equal(body.key_id, shared.keyId);
  assert.equal(body.environment, "dev");

  const left = await ask(shared, "session", { method: "DELETE", cookie });
  assert.equal(left.status, 204);
  assert.match(left.headers.get("set-cookie") ?? "", /=; Path=\/dashboard; Max-Age=0;/);
  // A copy of the cookie is not valid any more.
  assert.deepEqual((await ask(shared, "session", { cookie })).body, { signed_in: false });
  assert.equal((await ask(shared, "live", { cookie })).status, 401);
});

test("after a restart, an ended session stays ended, and another continues, but not in another environment", async () => {
  await using gateway = await startWatched();
  const [left, kept] = [await signIn(gateway, gateway.key), await signIn(gateway, gateway.key)];
  await ask(gateway, "session", { method: "DELETE", cookie: left });
  await gateway.gateway.stop();
  const statuses = async (): Promise<number[]> => {
    const restarted = await restart(gateway);
    const asked: number[] = [];
    for (const cookie of [left, kept]) {
      const renamed = renamedFor(restarted, cookie);
      asked.push((await ask(restarted, "live", { cookie: renamed })).status);
    }
    await restarted.stop();
    return asked;
  };
  assert.deepEqual(await statuses(), [401, 200]);
  // Another deployment may use the same store.
  const file = join(gateway.folder, "pipeline.yaml");
  await writeFile(file, `environment: stage\n${await readFile(file, "utf8")}`);
  assert.deepEqual(await statuses(), [401, 401]);
});

test("a session and the count of sign-in attempts survive a reload, and the dashboard shows the new pipeline", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const routes = async (): Promise<string[]> =>
    (await ask(gateway, "routes", { cookie })).body.routes.map(
      (route: { path: string }) => route.path,
    );
  assert.deepEqual(await routes(), ["/call", "/free", "(unmatched)"]);
  for (let i = 0; i < 9; i++) await ask(gateway, "session", { body: { key: "wrong" } });
  const text = await readFile(join(gateway.folder, "pipeline.yaml"), "utf8");
  await gateway.write(text.replace("path: /free", "path: /gratis"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.deepEqual(await routes(), ["/call", "/gratis", "(unmatched)"]);
  // An address may try ten times a minute, and must then wait, even with a valid key.
  const { status, headers, body } = await ask(gateway, "session", { body: { key: gateway.key } });
  assert.deepEqual([status, body.error_code], [429, "GATEWAY_RATE_LIMITED"]);
  const wait = Number(headers.get("retry-after")?.split(",").at(-1));
  assert.ok(wait > 0 && wait <= 60, `retry-after ${wait}`);
});

test("while the store cannot be written, ending a session reports an error, and the browser still forgets the cookie", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const db = new DatabaseSync(join(gateway.folder, "data/state.db"));
  db.exec("ALTER TABLE endings RENAME TO lost");
  const left = await ask(gateway, "session", { method: "DELETE", cookie });
  assert.equal(left.status, 503);
  assert.match(left.headers.get("set-cookie") ?? "", /; Max-Age=0;/);
  db.exec("ALTER TABLE lost RENAME TO endings");
  db.close();
  assert.equal((await ask(gateway, "live", { cookie })).status, 200);
});

test("behind a proxy that terminates TLS, the cookie is only sent over TLS, and only to this host", async () => {
  const headers = { origin: shared.adminUrl.replace("http:", "https:") };
  const entered = await ask(shared, "session", { body: { key: shared.key }, headers });
  const set = entered.headers.get("set-cookie") ?? "";
  assert.match(
    set,
    /^__Host-sluice_dashboard_\d+=\S+; Path=\/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure$/,
  );
  const [cookie = ""] = set.split(";", 1);
  const statusOf = async (sent: string): Promise<number> =>
    (await ask(shared, "live", { cookie: sent })).status;
  assert.equal(await statusOf(cookie), 200);
  // Another host of the domain can set a cookie without the prefix.
  assert.equal(await statusOf(cookie.replace("__Host-", "")), 401);
  const { body } = await ask(shared, "session", { cookie: `${planted}; ${cookie}` });
  assert.equal(body.key_id, shared.keyId);
  const left = await ask(shared, "session", { method: "DELETE", cookie, headers });
  assert.match(
    left.headers.get("set-cookie") ?? "",
    /^__Host-sluice_dashboard_\d+=; Path=\/; Max-Age=0; .*; Secure$/,
  );
  assert.equal(await statusOf(cookie), 401);
});

test("a session ends after eight hours, and at once when its key is revoked", async () => {
  const clock = manualClock(Date.now());
  await using gateway = await startWatched({ clock });
  const cookie = await signIn(gateway, gateway.key);
  const revoked = await signIn(gateway, gateway.tenant.key);
  assert.equal((await ask(gateway, "live", { cookie: revoked })).status, 200);
  await withFolderAccounts(`${gateway.folder}/data`, (store) =>
    store.revokeKey(gateway.tenant.keyId, { actor: "test", at: clock.now() }),
  );
  const { status, body } = await ask(gateway, "live", { cookie: revoked });
  assert.equal(status, 401);
  assert.deepEqual(body, { error: "not signed in", error_code: "GATEWAY_UNAUTHORIZED" });
  clock.jump(8 * 3_600_000 - 1);
  assert.equal((await ask(gateway, "live", { cookie })).status, 200);
  clock.jump(1);
  assert.equal((await ask(gateway, "live", { cookie })).status, 401);
});

test("a cookie that was changed is not a session", async () => {
  const [name = "", token = ""] = session.split("=", 2);
  const [payload = "", mac = ""] = token.split(".");
  const forged = Buffer.from(payload, "base64url")
    .toString()
    .replace(shared.keyId, shared.tenant.keyId);
  for (const value of [
    "",
    ".",
    "x",
    token.slice(0, -1),
    `${Buffer.from(forged).toString("base64url")}.${mac}`,
    `${payload}.${mac}.${mac}`,
  ]) {
    assert.equal((await ask(shared, "live", { cookie: `${name}=${value}` })).status, 401, value);
  }
});

test("two session cookies are not a session, because another service may have set one", async () => {
  for (const both of [`${planted}; ${session}`, `${session}; ${planted}`]) {
    assert.equal((await ask(shared, "live", { cookie: both })).status, 401);
  }
  assert.equal((await ask(shared, "live", { cookie: `a=b; ${session}; c=d` })).status, 200);
});

test("a key without an administrator's capability cannot sign in", async () => {
  const plain = await shared.issue({ capabilities: ["ledger:read"] });
  const refused = await ask(shared, "session", { body: { key: plain.key } });
  assert.equal(refused.status, 403);
  assert.equal(refused.body.error, "the key needs platform:admin or workspace:admin");
  assert.ok(!shared.lines.some((line) => line.includes(plain.key)), "no key is logged");
});

test("a body of another type gets 415, and one that is too large 413", async () => {
  const key = shared.key;
  const form = await ask(shared, "session", {
    body: { key },
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  assert.equal(form.status, 415);
  const large = await ask(shared, "session", { body: { key: "x".repeat(20_000) } });
  assert.equal(large.status, 413);
});

test("behind a proxy in admin.trustProxy, each client has its own attempts and its own address", async () => {
  const proxied = (trustProxy: string): Promise<Watched> =>
    startWatched({ adminOptions: `, trustProxy: [${trustProxy}]` });
  const signsIn = async (gateway: Watched, key: string, client: string): Promise<number> =>
    (await ask(gateway, "session", { body: { key }, headers: { "x-forwarded-for": client } }))
      .status;
  {
    await using gateway = await proxied("127.0.0.1");
    for (let i = 0; i < 10; i++) assert.equal(await signsIn(gateway, "guess", "192.0.2.7"), 401);
    assert.equal(await signsIn(gateway, gateway.key, "192.0.2.7"), 429);
    assert.equal(await signsIn(gateway, gateway.key, "192.0.2.7, 192.0.2.8"), 200);
    const bound = await gateway.issue({
      capabilities: ["platform:admin"],
      allowedAddresses: ["192.0.2.1"],
    });
    assert.equal(await signsIn(gateway, bound.key, "192.0.2.1"), 200);
    assert.equal(await signsIn(gateway, bound.key, "192.0.2.2"), 401);
  }
  await using direct = await proxied("192.0.2.250");
  for (let i = 0; i < 10; i++) assert.equal(await signsIn(direct, "guess", `192.0.2.${i}`), 401);
  assert.equal(await signsIn(direct, direct.key, "192.0.2.99"), 429, "the header is not trusted");
});

const foreign: readonly (readonly [string, Record<string, string | undefined>])[] = [
  ["without the page's own header", { "x-sluice-dashboard": undefined }],
  ["without an origin", { origin: undefined }],
  ["from another origin", { origin: "http://evil.example" }],
  ["from the same host on another port", { origin: "http://127.0.0.1:1" }],
  ["from nowhere", { origin: "null" }],
];
test("a change that does not come from the page is refused, whatever the cookie", async () => {
  for (const [what, headers] of foreign) {
    const revoke = `keys/${shared.tenant.keyId}/revoke`;
    // The router reads percent-encoded letters as letters.
    for (const path of ["session", "keys", revoke, `../%61pi/${revoke}`, `../a%70i/${revoke}`]) {
      const { status, body } = await ask(shared, path, { cookie: session, body: {}, headers });
      assert.equal(status, 403, `${path} ${what}`);
      assert.equal(body.error_code, "GATEWAY_PERMISSION_DENIED");
    }
  }
});

test("another site cannot read answers either", async () => {
  const path = "/dashboard/api/live";
  const own = { cookie: session, "x-sluice-dashboard": "1" };
  assert.equal((await raw(shared, path, { ...own, "sec-fetch-site": "same-origin" })).status, 200);
  for (const site of ["cross-site", "same-site", "none"]) {
    assert.equal((await raw(shared, path, { ...own, "sec-fetch-site": site })).status, 403, site);
  }
  assert.equal((await raw(shared, path, { cookie: session })).status, 403);
  assert.equal((await raw(shared, "/dashboard/%61pi/live", { cookie: session })).status, 403);
});

test("a host name that was made to resolve here is refused; addresses, localhost and admin.hosts are not", async () => {
  const of = async (host: string): Promise<number> =>
    (await raw(shared, "/dashboard", { host })).status;
  const refused = ["evil.example", "gateway.internal.evil.example", "localhost.evil.example"];
  for (const host of [...refused, "a b", "x@127.0.0.1"]) assert.equal(await of(host), 403, host);
  const own = "127.0.0.1 127.0.0.1:9090 [::1]:9090 localhost:9090 LOCALHOST a.localhost";
  for (const host of `${own} gateway.internal Gateway.Internal:80`.split(" ")) {
    assert.equal(await of(host), 200, host);
  }
});

test("unknown paths get 404, and known ones with another method 405", async () => {
  assert.equal((await ask(shared, "nothing", { cookie: session })).status, 404);
  assert.equal((await fetch(`${shared.adminUrl}/dashboard/assets/..%2fdeps.ts`)).status, 404);
  assert.equal((await fetch(`${shared.adminUrl}/dashboard/assets/pages.ts`)).status, 404);
  const wrong = await ask(shared, "live", { cookie: session, method: "POST", body: {} });
  assert.equal(wrong.status, 405);
  assert.equal(wrong.headers.get("allow"), "GET, HEAD");
  const key = await ask(shared, "keys/x/revoke", { cookie: session });
  assert.equal(key.status, 405);
  assert.equal(key.headers.get("allow"), "POST");
});
