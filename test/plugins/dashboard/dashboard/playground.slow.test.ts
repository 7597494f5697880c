/** The playground: the requests that the admin listener forwards, and the view in a real Chromium. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  startTestGateway,
  type TestGateway,
  type TestKey,
} from "../../../../plugins/contracts/testing.ts";
import { startDemos } from "../../../../src/commands/dev.ts";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage, saveScreenshot, widthExcess } from "../../../watched-page.ts";
import { seen } from "../../../e2e/tools-plugin.ts";
import { ask, enter, signIn } from "./gateway.ts";

const root = join(import.meta.dirname, "../../../..");
const plugin = JSON.stringify(join(root, "test/e2e/tools-plugin.ts"));
const pipeline = readFileSync(join(root, "pipeline.yaml"), "utf8")
  .replace("\ntools:", `\nplugins: { tools-plugin: ${plugin} }\ntools:`)
  .replace("\n  - platform-tools", "\n  - tools-plugin\n  - platform-tools");

const stack = new AsyncDisposableStack();
let gateway: TestGateway;
let caller: TestKey;
let tenant: TestKey;

before(async () => {
  const demo = await startDemos({}, stack);
  gateway = stack.use(
    await startTestGateway({
      pipeline,
      env: { ...demo.env, LOG_LEVEL: "silent" },
      account: { capabilities: ["platform:admin"] },
    }),
  );
  caller = await gateway.issue({
    capabilities: ["inference", "platform:read", "ledger:read", "ledger:write"],
  });
  tenant = await gateway.issue({ capabilities: ["workspace:admin"] });
});

after(() => stack.disposeAsync());

function forwarded(cookie: string | undefined, body: object): Promise<Response> {
  return fetch(`${gateway.adminUrl}/dashboard/api/playground`, {
    method: "POST",
    headers: {
      "x-sluice-dashboard": "1",
      origin: gateway.adminUrl,
      "content-type": "application/json",
      ...(cookie !== undefined && { cookie }),
    },
    body: JSON.stringify(body),
  });
}

const health = { jsonrpc: "2.0", id: 1, method: "system_health", params: [] };

test("a call is forwarded with the key of its user, and its answer is plain text", async () => {
  const cookie = await signIn(gateway, gateway.key);
  const { body } = await ask(gateway, "playground", { cookie });
  assert.equal(body.origin, gateway.url);
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
  const explained = await ask(gateway, `explain?id=${id}`, { cookie });
  assert.equal(explained.body.exchanges[0].route, "/v1/ledger/rpc");
  assert.equal(explained.body.exchanges[0].key_id, caller.keyId);
});

test("nothing else is forwarded, and only for administrators of the deployment", async () => {
  const cookie = await signIn(gateway, gateway.key);
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
  const other = await signIn(gateway, tenant.key);
  assert.equal((await forwarded(other, wanted)).status, 403);
  assert.equal((await ask(gateway, "playground", { cookie: other })).status, 403);
  const foreign = { origin: "https://evil.example" };
  const crossSite = await ask(gateway, "playground", { cookie, body: wanted, headers: foreign });
  assert.equal(crossSite.status, 403);
});

test("an operator chats, calls a tool that writes and calls the node, each with its code and explanation", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const { page, problems } = await openWatchedPage(browser, { origin: gateway.adminUrl });
  await page.goto(`${gateway.adminUrl}/dashboard#/playground`);
  await enter(page, gateway.key);
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
  await page.getByText(`'${gateway.url}/`).waitFor();
  await page.getByLabel("Public address").fill("https://api.example.org/ignored");
  await page.keyboard.press("Tab");
  await page.getByText("'https://api.example.org/").waitFor();
  await page.getByLabel("Public address").fill("javascript:alert(1)");
  await page.keyboard.press("Tab");
  await page.getByText(`'${gateway.url}/`).waitFor();
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
