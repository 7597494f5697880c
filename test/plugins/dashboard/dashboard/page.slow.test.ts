/** The dashboard in a real Chromium, over a gateway that serves real calls. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { openChromium } from "../../../browser.ts";
import {
  faintTexts,
  openWatchedPage,
  widthExcess,
  type WatchedPage,
} from "../../../watched-page.ts";
import { startWorker } from "../../inference/networks/scripted-worker.ts";
import { failing } from "../../inference/networks/worker-scripts.ts";
import { call, enter, startWatched, type Watched } from "./gateway.ts";

async function open(
  browser: Browser,
  { adminUrl }: Watched,
  options: BrowserContextOptions = {},
): Promise<WatchedPage> {
  const opened = await openWatchedPage(browser, { origin: adminUrl, ...options });
  await opened.page.goto(`${adminUrl}/dashboard`);
  return opened;
}

function view(page: Page, name: string): Promise<void> {
  return page.getByRole("navigation").getByRole("link", { name }).click();
}

const viewNames = "Live Spend Keys Workspaces Changes Health Pipeline Plugins Playground".split(
  " ",
);

const pipelineParts = ["File", "Gateways and stores"];

/** Opens the views one after the other, and the parts of Pipeline. The file on disk differs, with a fault. */
async function* eachView(page: Page, gateway: Watched): AsyncGenerator<string> {
  const text = await readFile(join(gateway.folder, "pipeline.yaml"), "utf8");
  await gateway.write(text.replace("meter: { price", "meterr: { price"));
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  for (const name of viewNames) {
    await view(page, name);
    await page.locator(".loading").first().waitFor({ state: "detached" });
    yield name;
  }
  await view(page, "Pipeline");
  for (const name of pipelineParts) {
    await page.getByRole("button", { name, exact: true }).click();
    await page.getByRole("table").first().waitFor();
    yield name;
  }
}

/** Runs a test with a new gateway and its page, which must have no problems at the end. Skips it without a browser. */
async function onPage(
  t: TestContext,
  options: BrowserContextOptions,
  run: (gateway: Watched, page: Page, problems: string[]) => Promise<void>,
): Promise<void> {
  launched ??= await openChromium(t);
  if (launched === undefined) return;
  await using gateway = await startWatched();
  const { page, problems } = await open(launched, gateway, options);
  await run(gateway, page, problems);
  assert.deepEqual(problems, []);
  // An open page would continue to ask the gateway, which has ended.
  await page.context().close();
}

let launched: Browser | undefined;
after(() => launched?.close());

test("after signing in, the views show the requests of the gateway and follow them", (t) =>
  onPage(t, {}, async (gateway, page, problems) => {
    await page.getByLabel("API key").fill("gateway_dev_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("Not signed in: invalid authorization format.").waitFor();
    // The browser itself writes the 401 of a wrong key to the console.
    assert.match(problems.splice(0).join(), /^error: Failed to load resource.* 401 /);
    await enter(page, gateway.key);
    await page.getByText("All checks pass.").waitFor();
    await page.getByText("No requests yet", { exact: true }).waitFor();
    await page.getByText("Nothing was refused").waitFor();
    await page.getByRole("heading", { name: "Requests per 5 seconds, last 10 minutes" }).waitFor();

    assert.equal(await call(gateway, gateway.key), 200);
    assert.equal(await call(gateway, undefined), 401);
    await page.getByText("2 since the start").waitFor();
    await page.getByText("GATEWAY_UNAUTHORIZED").waitFor();
    const latest = page.getByRole("table", { name: "The latest requests, newest first" });
    await latest.getByText("0.500 CU").waitFor();
    await latest.getByText("No valid key").waitFor();
    await latest.getByRole("button").first().click();
    const explanation = page.getByRole("dialog", { name: "GET /call" });
    await explanation.getByRole("row", { name: /authorize.*refused/ }).waitFor();
    await explanation.getByRole("button", { name: "Close" }).click();

    await view(page, "Spend");
    await page.getByRole("button", { name: "Route", exact: true }).click();
    await page.getByRole("row", { name: /\/call.*0\.500 CU.*100\.0%/ }).waitFor();
    await page.getByRole("button", { name: "Today" }).click();
    await page.getByRole("img", { name: "Credit Units per hour" }).waitFor();
    await page.getByRole("button", { name: "12 months" }).click();
    await page.getByRole("img", { name: "Credit Units per day" }).waitFor();
    await page.getByText("1 charge").waitFor();

    await view(page, "Health");
    await page.getByRole("heading", { name: "Gateway" }).waitFor();
    await page.getByText("No backend is in use").waitFor();
    await view(page, "Pipeline");
    const steps = page.getByRole("list", { name: "Steps of /call" });
    await steps.getByText("1 refused").waitFor();
    assert.deepEqual(await steps.locator(".step-name").allTextContents(), [
      "request-id",
      "authenticate",
      "authorize",
      "meter",
      "discovery",
    ]);

    assert.equal(await page.getByRole("heading", { name: "GET /free" }).count(), 0);
    await page.getByRole("button", { name: "All routes" }).click();
    assert.equal(await page.getByRole("heading", { name: "GET /free" }).count(), 1);
    await page.getByRole("button", { name: "With requests" }).click();
    assert.equal(await page.getByRole("heading", { name: "GET /free" }).count(), 0);
    assert.equal(await steps.isVisible(), true);

    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    assert.deepEqual(
      (await page.context().cookies()).map(({ value }) => value),
      [],
    );
  }));

test("a key is created, shown once, rotated and revoked", (t) =>
  onPage(t, {}, async (gateway, page) => {
    await enter(page, gateway.key);
    await view(page, "Keys");
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Workspace", { exact: true }).selectOption(gateway.tenant.workspaceId);
    await dialog.getByLabel("Name").fill("<img src=x onerror=alert(1)>");
    await dialog.getByLabel("CU in 24 hours").fill("2.5");
    await dialog.getByLabel("Allowed addresses").fill("127.0.0.1, ::1");
    await dialog.getByRole("button", { name: "Create key" }).click();
    const made = await page.getByLabel("The new key").inputValue();
    assert.match(made, /^gateway_dev_[0-9a-f]{32}$/);
    assert.equal(await call(gateway, made), 200);
    // Escape must not close the dialog, because the key would be lost.
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "I have saved it" }).click();
    const row = page.getByRole("row", { name: "<img src=x onerror=alert(1)>" });
    await row.getByText("0.5 CU of 2.5 CU").waitFor();
    assert.equal(await row.getByRole("meter").first().getAttribute("aria-valuenow"), "500");
    assert.ok(!(await page.content()).includes(made), "the key is gone from the page");

    const oldId = await row.locator(".key-name + code").textContent();
    await row.getByRole("button", { name: "Rotate" }).click();
    await page.getByLabel("Keep the old key valid for").selectOption("0");
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    const successor = await page.getByLabel("The new key").inputValue();
    await page.getByRole("button", { name: "I have saved it" }).click();
    assert.notEqual(successor, made);
    assert.equal(await call(gateway, made), 401);
    assert.equal(await call(gateway, successor), 200);

    // Until the list is read again, the only row is that of the old key.
    await row.filter({ hasText: oldId ?? "" }).waitFor({ state: "detached" });
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    assert.equal(await call(gateway, successor), 401);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.getByText(/^revoked /).waitFor();
  }));

test("the latest requests are filtered, the filters are in the address, and pausing stops the list", (t) =>
  onPage(t, {}, async (gateway, page) => {
    await enter(page, gateway.key);
    await page.getByText("No requests yet", { exact: true }).waitFor();
    await call(gateway, gateway.key);
    await call(gateway, undefined);
    const latest = page.getByRole("table", { name: "The latest requests, newest first" });
    await latest.getByText("No valid key").waitFor();
    await page.getByRole("searchbox", { name: "Key, by name or id" }).fill("test");
    await latest.getByText("No valid key").waitFor({ state: "detached" });
    assert.equal(await latest.getByRole("row").count(), 2);
    assert.match(page.url(), /#\/live\?key=test$/);
    await page.getByLabel("Status").selectOption("5xx");
    await page.getByText("No request matches the filters").waitFor();
    await page.reload();
    await page.getByText("No request matches the filters").waitFor();
    assert.equal(await page.getByLabel("Status").inputValue(), "5xx");
    await page.getByRole("button", { name: "Clear filters" }).click();
    await latest.getByText("No valid key").waitFor();
    assert.equal(await page.getByLabel("Key, by name or id").inputValue(), "");

    await page.getByRole("button", { name: "Pause" }).click();
    await call(gateway, gateway.key, "/free");
    await page.getByText("3 since the start").waitFor();
    assert.equal(await latest.getByText("/free").count(), 0);
    await page.getByRole("button", { name: "Resume" }).click();
    await latest.getByText("/free").waitFor();
    await page.getByRole("link", { name: "No valid key" }).click();
    await latest.getByText("/free").waitFor({ state: "detached" });
    assert.match(page.url(), /#\/live\?code=GATEWAY_UNAUTHORIZED$/);
  }));

test("a workspace gets a plan, credit and a limit, a key is edited, and the changes are recorded", (t) =>
  onPage(t, {}, async (gateway, page) => {
    await enter(page, gateway.key);
    await view(page, "Workspaces");
    await page.getByRole("button", { name: "New workspace" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Acme");
    await dialog.getByLabel("Plan").selectOption("startup");
    await dialog.getByRole("button", { name: "Create workspace" }).click();
    const row = page.getByRole("row", { name: "Acme" });
    await row.getByText("startup").waitFor();

    await page.getByRole("button", { name: "Credit: Acme" }).click();
    await dialog.getByLabel("Credit in CU").fill("2.5");
    await dialog.getByRole("button", { name: "Add credit" }).click();
    // The browser asks for the confirmation.
    assert.equal(await dialog.isVisible(), true);
    await dialog.getByLabel("Charge the workspace for 2.5 CU").check();
    await dialog.getByRole("button", { name: "Add credit" }).click();
    await row.getByText("2.5 CU").waitFor();
    await page.getByRole("button", { name: "Limit: Acme" }).click();
    await dialog.getByLabel("Limit of overage in CU").fill("0.75");
    await dialog.getByRole("button", { name: "Save limit" }).click();
    await row.getByText("0.75 CU").waitFor();
    await page.getByRole("button", { name: "Plan: Acme" }).click();
    await dialog.getByLabel("New plan").selectOption("free");
    await dialog.getByLabel("When").selectOption("period");
    await dialog.getByRole("button", { name: "Change plan" }).click();
    await row.getByText(/^free from/).waitFor();
    await page.getByRole("button", { name: "Keep plan: Acme" }).click();
    await dialog.getByRole("button", { name: "Cancel the downgrade" }).click();
    await row.getByText(/^free from/).waitFor({ state: "detached" });

    await view(page, "Keys");
    await page.getByRole("button", { name: "Edit test" }).first().click();
    await dialog.getByLabel("Name").fill("renamed");
    await dialog.getByLabel("CU in 30 days").fill("7");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row", { name: "renamed" }).getByText("of 7 CU").waitFor();

    await view(page, "Changes");
    const changes = page.getByRole("table", { name: "Changes, newest first" });
    await changes
      .getByRole("row", { name: /workspace\.purchase.*amount_cu_milli: 2500/ })
      .waitFor();
    await page.getByRole("searchbox").fill("renamed");
    await changes.getByText("workspace.purchase").waitFor({ state: "detached" });
    assert.equal(await changes.getByRole("row").count(), 2);
  }));

/** Returns the element in focus and whether its focus is visible. While a control of the browser has the focus, it is the body. */
const focusNow = `(() => {
  const e = document.activeElement;
  const name = e.getAttribute("aria-label") ?? (e.labels?.[0]?.textContent || e.textContent);
  return { name, seen: e === document.body || getComputedStyle(e).outlineStyle === "solid" };
})()`;

/** Presses Tab until the element with this name has the focus. Fails if an element on the way has no visible focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  const seen: string[] = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const now = await page.evaluate<{ name: string; seen: boolean }>(focusNow);
    assert.ok(now.seen, `the focus on ${now.name} is not visible`);
    if (now.name === name) return;
    seen.push(now.name);
  }
  assert.fail(`Tab did not reach ${name}, only ${seen.join(", ")}`);
}

test("everything can be done with the keyboard, and the focus is always visible", (t) =>
  onPage(t, {}, async (gateway, page) => {
    await page.getByLabel("API key").waitFor();
    await page.keyboard.type(gateway.key);
    await page.keyboard.press("Enter");
    await page.getByRole("navigation").waitFor();
    await page.evaluate("document.activeElement.blur()");
    await tabTo(page, "Skip to content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate("document.activeElement.id"), "content");
    await page.evaluate("document.activeElement.blur()");
    await tabTo(page, "Keys");
    await page.keyboard.press("Enter");
    await page.getByText(gateway.tenant.keyId).waitFor();

    await tabTo(page, "New key");
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog", { name: "New key" });
    await dialog.waitFor();
    // The dialog keeps the focus: its last button is followed by its first field, or by the browser's own controls.
    await tabTo(page, "Create key");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Tab");
    const isWithin = await page.evaluate(
      'document.activeElement === document.body || document.activeElement.closest("dialog") !== null',
    );
    assert.equal(isWithin, true);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert.equal(await page.evaluate("document.activeElement.textContent"), "New key");

    // The table is updated every few seconds, and the focus stays on the same element.
    await tabTo(page, "Revoke test");
    await page.evaluate("globalThis.focused = document.activeElement");
    for (let i = 0; i < 2; i++) {
      const asked = page.waitForResponse((response) => response.url().includes("/api/keys?"));
      await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
      await asked;
    }
    assert.equal(await page.evaluate("document.activeElement === globalThis.focused"), true);
  }));

test("the colours follow the system until the user chooses, and the choice is kept", (t) =>
  onPage(t, { colorScheme: "dark" }, async (gateway, page) => {
    await enter(page, gateway.key);
    await page.getByText("All checks pass.").waitFor();
    const paper = (): Promise<string> =>
      page.evaluate("getComputedStyle(document.body).backgroundColor");
    const dark = await paper();
    await page.getByRole("button", { name: "Switch between light and dark" }).click();
    const light = await paper();
    assert.notEqual(light, dark);
    await page.reload();
    await page.getByText("All checks pass.").waitFor();
    assert.equal(await paper(), light);
    await page.getByRole("button", { name: "Switch between light and dark" }).click();
    assert.equal(await paper(), dark);
  }));

test("text has a contrast of at least 4.5 to 1, light and dark, and a phone has to scroll no view sideways", (t) =>
  onPage(t, {}, async (gateway) => {
    await call(gateway, gateway.key);
    await call(gateway, undefined);
    const phone = {
      colorScheme: "light",
      viewport: { width: 390, height: 844 },
      hasTouch: true,
    } as const;
    for (const options of [phone, { colorScheme: "dark" } as const]) {
      const { page } = await open(launched!, gateway, options);
      const judge = async (name: string): Promise<void> => {
        assert.deepEqual(await faintTexts(page), [], `${options.colorScheme} ${name}`);
        if (options === phone) assert.equal(await widthExcess(page), 0, name);
      };
      await page.getByLabel("API key").waitFor();
      await judge("the sign-in page");
      await enter(page, gateway.key);
      for await (const name of eachView(page, gateway)) await judge(name);
      await view(page, "Keys");
      await page.getByRole("button", { name: "New key" }).click();
      await judge("a dialog");
      const inner = await page.evaluate(
        '(() => { const d = document.querySelector("dialog"); return d.scrollWidth - d.clientWidth; })()',
      );
      assert.equal(inner, 0);
      await page.context().close();
    }
  }));

test("while the gateway does not answer, the page keeps its data and reports the failure", (t) =>
  onPage(t, {}, async (gateway, page, problems) => {
    await call(gateway, gateway.key);
    await enter(page, gateway.key);
    await page.getByText("1 since the start").waitFor();
    await page.route("**/api/live", (route) => route.abort());
    await page.getByText("Not up to date: the gateway does not answer. Trying again.").waitFor();
    assert.equal(await page.getByText("1 since the start").isVisible(), true);
    await page.unroute("**/api/live");
    await page.getByText("Not up to date").waitFor({ state: "hidden" });
    // The browser reports each answer that is not a success.
    problems.splice(0);
  }));

test("Health says why a worker is not used, since when, and when it is tried again", async (t) => {
  launched ??= await openChromium(t);
  if (launched === undefined) return;
  const inference = "authenticate, { authorize: { require: inference } }, meter";
  await using worker = await startWorker({ otherwise: failing(401) });
  await using gateway = await startWatched({
    append: `  - { path: /chat, methods: [POST], run: [${inference}], to: chat }
rate: "0.25"
networks:
  classic: { kind: openai, url: "${worker.url}", price_per_token_nano: "12" }
`,
  });
  const { key } = await gateway.issue({ capabilities: ["inference"] });
  const body = JSON.stringify({
    model: "Test/Model-1",
    messages: [{ role: "user", content: "hello" }],
  });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  for (let n = 0; n < 3; n++) {
    const answer = await fetch(`${gateway.url}/chat`, { method: "POST", headers, body });
    assert.equal(answer.status, 503, await answer.text());
  }
  const opened = await open(launched, gateway);
  const { page } = opened;
  await enter(page, gateway.key);
  await view(page, "Health");
  const workers = page.getByRole("table", { name: "Workers of classic" });
  const row = await workers.getByRole("row", { name: /Test\/Model-1/ }).textContent();
  assert.match(row ?? "", /left out .*401.*, since \d\d:\d\d:\d\d, next try \d\d:\d\d:\d\d/);
  assert.deepEqual(opened.problems, []);
});
