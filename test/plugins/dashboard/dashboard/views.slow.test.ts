/**
 * The views Playground and Pipeline: the requests that the admin listener forwards, the file and the stores, and both
 * views in a real Chromium.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { rm, writeFile } from "node:fs/promises";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../../../plugins/contracts/testing.ts";
import { startDemos } from "../../../../src/commands/dev.ts";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage, saveScreenshot, widthExcess } from "../../../watched-page.ts";
import { seen } from "../../../e2e/tools-plugin.ts";
import { ask, enter, pipeline, signIn, startWatched } from "./gateway.ts";

const root = join(import.meta.dirname, "../../../..");
const plugin = JSON.stringify(join(root, "test/e2e/tools-plugin.ts"));
const withTools = readFileSync(join(root, "pipeline.yaml"), "utf8")
  .replace("\ntools:", `\nplugins: { tools-plugin: ${plugin} }\ntools:`)
  .replace("\n  - platform-tools", "\n  - tools-plugin\n  - platform-tools");

const stack = new AsyncDisposableStack();
let shared: TestGateway;
let caller: TestKey;
let tenant: TestKey;

before(async () => {
  const demo = await startDemos({}, stack);
  shared = stack.use(
    await startTestGateway({
      pipeline: withTools,
      env: { ...demo.env, LOG_LEVEL: "silent" },
      account: { capabilities: ["platform:admin"] },
    }),
  );
  caller = await shared.issue({
    capabilities: ["inference", "platform:read", "ledger:read", "ledger:write"],
  });
  tenant = await shared.issue({ capabilities: ["workspace:admin"] });
});

after(() => stack.disposeAsync());

function forwarded(cookie: string | undefined, body: object): Promise<Response> {
  return fetch(`${shared.adminUrl}/dashboard/api/playground`, {
    method: "POST",
    headers: {
      "x-sluice-dashboard": "1",
      origin: shared.adminUrl,
      "content-type": "application/json",
      ...(cookie !== undefined && { cookie }),
    },
    body: JSON.stringify(body),
  });
}

const health = { jsonrpc: "2.0", id: 1, method: "system_health", params: [] };

test("a call is forwarded with the key of its user, and its answer is plain text", async () => {
  const cookie = await signIn(shared, shared.key);
  const { body } = await ask(shared, "playground", { cookie });
  assert.equal(body.origin, shared.url);
  assert.deepEqual(body.paths, {
    chat: "/v1/chat/completions",
    models: "/v1/models",
    tools: "/rpc",
    node: "/v1/ledger/rpc",
  });
  const answer = await forwarded(cookie, { kind: "node", key: caller.key, body: health });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/plain; charset=utf-8");
  assert.equal(answer.headers.get("x-playground-status"), "200");
  assert.ok(Number(answer.headers.get("x-playground-cost-milli-cu")) > 0);
  assert.match(await answer.text(), /isSyncing/);
  const id = answer.headers.get("x-request-id") ?? "";
  const explained = await ask(shared, `explain?id=${id}`, { cookie });
  assert.equal(explained.body.exchanges[0].route, "/v1/ledger/rpc");
  assert.equal(explained.body.exchanges[0].key_id, caller.keyId);
});

test("nothing else is forwarded, and only for administrators of the deployment", async () => {
  const cookie = await signIn(shared, shared.key);
  const wanted = { kind: "node", key: caller.key, body: health };
  for (const wrong of [
    { ...wanted, kind: "admin" },
    { ...wanted, kind: "constructor" },
    { ...wanted, path: "/tma" },
    { ...wanted, key: "a\r\nx-evil: 1" },
    { ...wanted, key: "" },
    { ...wanted, body: "text" },
    { kind: "node" },
  ]) {
    const answer = await forwarded(cookie, wrong);
    assert.equal(answer.status, 400, JSON.stringify(wrong));
    assert.match(await answer.text(), /GATEWAY_SCHEMA_VIOLATION/);
  }
  assert.equal((await forwarded(undefined, wanted)).status, 401);
  const other = await signIn(shared, tenant.key);
  assert.equal((await forwarded(other, wanted)).status, 403);
  assert.equal((await ask(shared, "playground", { cookie: other })).status, 403);
  const foreign = { origin: "https://evil.example" };
  const crossSite = await ask(shared, "playground", { cookie, body: wanted, headers: foreign });
  assert.equal(crossSite.status, 403);
});

test("an operator chats, calls a tool that writes and calls the node, each with its code and explanation", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const { page, problems } = await openWatchedPage(browser, { origin: shared.adminUrl });
  await page.goto(`${shared.adminUrl}/dashboard#/playground`);
  await enter(page, shared.key);
  const answer = page.getByLabel("Answer");
  const explanation = page.getByRole("table", { name: /^Steps/ });

  // Without a key, nothing is sent.
  await page.getByRole("button", { name: "List the models" }).click();
  await page.getByText("enter an API key first").waitFor();
  await page.getByLabel("API key for calls").fill(caller.key);
  await page.getByRole("button", { name: "List the models" }).click();
  await page.getByRole("combobox", { name: "Model" }).waitFor();
  await page.getByLabel("Message").fill("A lock lifts <b>boats</b>");
  await page.getByRole("button", { name: "Send" }).click();
  await explanation.waitFor();
  assert.match(await answer.innerText(), /<b>boats<\/b>/);
  await page
    .getByText(/^[\d.]+ CU$/)
    .first()
    .waitFor();
  await page.getByText("curl -N -X POST").waitFor();
  await page.getByText('import OpenAI from "openai"').waitFor();
  await page.getByText(`'${shared.url}/`).waitFor();
  await page.getByLabel("Public address").fill("https://api.example.org/ignored");
  await page.keyboard.press("Tab");
  await page.getByText("'https://api.example.org/").waitFor();
  await page.getByLabel("Public address").fill("javascript:alert(1)");
  await page.keyboard.press("Tab");
  await page.getByText(`'${shared.url}/`).waitFor();
  await saveScreenshot(page, "playground-chat");

  await page.getByRole("button", { name: "Tool", exact: true }).click();
  await page.getByRole("button", { name: "List the tools" }).click();
  await page.getByRole("combobox", { name: "Tool" }).selectOption("write");
  await page.getByLabel("to", { exact: true }).fill("Ada");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Run write?" });
  assert.match(await dialog.innerText(), /Ada/);
  assert.deepEqual(seen.writes, []);
  await saveScreenshot(page, "playground-confirmation");
  await dialog.getByRole("button", { name: "Run it" }).click();
  await answer.getByText("0x01").waitFor();
  assert.deepEqual(seen.writes, [{ to: "Ada" }]);
  await page.getByText("confirmation_token").first().waitFor();
  await explanation.waitFor();

  // The form also shows a schema of another server whose keywords have wrong types.
  await page.getByRole("combobox", { name: "Tool" }).selectOption("foreign");
  await page.getByLabel("odd", { exact: true }).fill("1");
  await page.getByLabel("list", { exact: true }).fill('["a"]');
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await answer.getByText("received").waitFor();
  await explanation.waitFor();

  await page.getByRole("button", { name: "Node", exact: true }).click();
  await page.getByLabel("Parameters").fill("no list");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await page.getByText("The parameters must be a JSON array.").waitFor();
  await page.getByLabel("Parameters").fill("[]");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await answer.getByText("isSyncing").waitFor();
  await explanation.waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await widthExcess(page), 0);
  await saveScreenshot(page, "playground-node-phone");

  // The key is not in the page, and leaving the view removes it.
  assert.ok(!(await page.content()).includes(caller.key));
  assert.equal(await page.evaluate("localStorage.length + sessionStorage.length"), 0);
  await page.getByRole("navigation").getByRole("link", { name: "Live" }).click();
  await page.getByRole("navigation").getByRole("link", { name: "Playground" }).click();
  assert.equal(await page.getByLabel("API key for calls").inputValue(), "");
  assert.deepEqual(problems, []);
});

test("the running file is compared with the file on disk, without the values of variables", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const file = join(gateway.folder, "pipeline.yaml");
  const read = async () => (await ask(gateway, "pipeline-file", { cookie })).body;
  const same = await read();
  assert.deepEqual([same.state, same.path, same.generation], ["same", file, 1]);
  const lines = (answer: { lines: { text: string }[] }) => answer.lines.map(({ text }) => text);
  assert.deepEqual(lines(same).join("\n"), pipeline.trimEnd());
  assert.ok(
    lines(same).includes(
      'store: { data: "${DATA_DIR}", postgres: "${DATABASE_URL:-}", replica: "${REPLICA_NAME:-}" }',
    ),
  );

  await gateway.write(pipeline.replace("meter: { price: 500 }", "meterr: { price: 500 }"));
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  const refused = await read();
  assert.deepEqual([refused.state, refused.generation], ["different", 1]);
  const changed = refused.lines.filter(
    (line: { running?: number; disk?: number }) =>
      line.running === undefined || line.disk === undefined,
  );
  assert.deepEqual(
    changed.map(({ running, disk }: { running?: number; disk?: number }) => [running, disk]),
    [
      [14, undefined],
      [undefined, 14],
    ],
  );
  assert.match(changed[1].text, /meterr/);

  await rm(file);
  const missing = await read();
  assert.deepEqual([missing.state, missing.problem], ["unreadable", "it does not exist"]);
  assert.deepEqual(lines(missing), lines(same));
  await writeFile(file, `#${"x".repeat(1_048_576)}`);
  assert.equal((await read()).problem, "it has more than 1048576 bytes");
});

test("the stores of a gateway alone are the databases in its data folder", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const damaged = "not a database, only a text".repeat(100);
  await writeFile(join(gateway.folder, "data", "damaged.db"), damaged);
  await writeFile(join(gateway.folder, "data", "other.txt"), "");
  const { body } = await ask(gateway, "stores", { cookie });
  const at = body.stores.findIndex(({ name }: { name: string }) => name === "damaged.db");
  const [{ up: isUp, problem }] = body.stores.splice(at, 1);
  assert.deepEqual([isUp, problem], [false, "ERR_SQLITE_ERROR"]);
  const names = body.stores.map(({ name }: { name: string }) => name);
  for (const name of ["charges.db", "state.db"]) assert.ok(names.includes(name), name);
  for (const { kind, up, schema_version: version, bytes } of body.stores) {
    assert.deepEqual([kind, up, version > 0, bytes > 0], ["SQLite", true, true, true]);
  }
});

test("operators see the difference with the fault at its line, and the stores", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  await using gateway = await startWatched();
  const { page } = await openWatchedPage(browser, {
    origin: gateway.adminUrl,
    viewport: { width: 1280, height: 800 },
  });
  await page.goto(`${gateway.adminUrl}/dashboard#/pipeline?show=file`);
  await enter(page, gateway.key);
  await page.getByText("same on disk").waitFor();
  await page.getByRole("cell", { name: "version: 1" }).waitFor();
  await gateway.write(pipeline.replace("meter: { price: 500 }", "meterr: { price: 500 }"));
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  await page.getByText("differs on disk").waitFor();
  await page.getByText("has 1 new line and lacks 1 line").waitFor();
  const compared = page.getByRole("table", { name: "pipeline.yaml as it runs and on disk" });
  await compared.locator("td.removed.line", { hasText: "meter: { price: 500 }" }).waitFor();
  await compared.locator("td.added.line", { hasText: "meterr: { price: 500 }" }).waitFor();
  await compared.getByRole("row", { name: /SLUICE_PLUGIN_UNKNOWN/ }).waitFor();
  await compared.getByText("10 equal lines").waitFor();
  assert.equal(await compared.getByText("version: 1").count(), 0);
  await page.getByRole("button", { name: "Show all lines" }).click();
  await compared.getByText("version: 1").first().waitFor();
  await saveScreenshot(page, "pipeline-file");
  await page.getByRole("button", { name: "Gateways and stores" }).click();
  await page.getByText("This gateway works alone").waitFor();
  const stores = page.getByRole("table", { name: "Stores of this gateway" });
  await stores.getByRole("row", { name: /^charges\.db SQLite answers \d+/ }).waitFor();
});
