/** The dashboard in a real Chromium, over a gateway that serves real calls. */
import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { openChromium } from "../../../browser.ts";
import { call, startWatched, type Watched } from "./gateway.ts";

/** Time limit of each wait in the page. It is long for slow machines and is not reached normally. */
const waitLimitMs = 15_000;

interface Opened {
  readonly page: Page;
  /** Console messages, exceptions, and violations of the Content-Security-Policy. */
  readonly problems: string[];
}

/** Opens the sign-in page of the dashboard. */
async function open(
  browser: Browser,
  { adminUrl }: Watched,
  options: BrowserContextOptions = {},
): Promise<Opened> {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(waitLimitMs);
  const problems: string[] = [];
  page.on("console", (message) => {
    if (message.type() !== "debug") problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`thrown: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(adminUrl)) problems.push(`other origin: ${request.url()}`);
  });
  await page.addInitScript(
    'addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective))',
  );
  await page.goto(`${adminUrl}/dashboard`);
  return { page, problems };
}

async function enter({ page }: Opened, key: string): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation").waitFor();
}

function view(page: Page, name: string): Promise<void> {
  return page.getByRole("navigation").getByRole("link", { name }).click();
}

/** Runs a test with a new gateway and the browser of this file. Skips the test if there is no browser. */
async function both(
  t: TestContext,
  run: (browser: Browser, gateway: Watched) => Promise<void>,
): Promise<void> {
  launched ??= await openChromium(t);
  if (launched === undefined) return;
  await using gateway = await startWatched();
  await run(launched, gateway);
}

/** The browser of all tests of this file, which run one after the other. */
let launched: Browser | undefined;
after(() => launched?.close());

test("after signing in, the views show the requests of the gateway and follow them", (t) =>
  both(t, async (browser, gateway) => {
    const opened = await open(browser, gateway);
    const { page } = opened;
    await page.getByLabel("API key").fill("gateway_dev_wrong");
    await page.keyboard.press("Enter");
    await page.getByText("Not signed in: invalid authorization format.").waitFor();
    // The browser itself writes the 401 of a wrong key to the console.
    assert.match(opened.problems.splice(0).join(), /^error: Failed to load resource.* 401 /);
    await enter(opened, gateway.key);
    await page.getByText("All checks pass.").waitFor();
    await page.getByText("No requests yet", { exact: true }).waitFor();
    await page.getByText("Nothing was refused").waitFor();

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

    await view(page, "Usage");
    await page.getByRole("row", { name: /discovery.*0\.500 CU.*100\.0%/ }).waitFor();
    await page.getByRole("button", { name: "Workspace" }).click();
    await page.getByRole("row", { name: new RegExp(gateway.workspaceId) }).waitFor();
    await page.getByRole("button", { name: "30 d" }).click();
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
    assert.deepEqual(opened.problems, []);
  }));

test("a key is created, shown once, rotated and revoked", (t) =>
  both(t, async (browser, gateway) => {
    const opened = await open(browser, gateway);
    const { page } = opened;
    await enter(opened, gateway.key);
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

    await row.getByRole("button", { name: "Rotate" }).click();
    await page.getByLabel("Keep the old key valid for").selectOption("0");
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    const successor = await page.getByLabel("The new key").inputValue();
    await page.getByRole("button", { name: "I have saved it" }).click();
    assert.notEqual(successor, made);
    assert.equal(await call(gateway, made), 401);
    assert.equal(await call(gateway, successor), 200);

    await row.first().getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.first().waitFor({ state: "detached" });
    assert.equal(await call(gateway, successor), 401);
    await page.getByRole("button", { name: "All", exact: true }).click();
    await page.getByText(/^revoked /).waitFor();
    assert.deepEqual(opened.problems, []);
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
  both(t, async (browser, gateway) => {
    const opened = await open(browser, gateway);
    const { page } = opened;
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

    // The table is replaced every few seconds, and the focus stays on the same element.
    await tabTo(page, "Revoke test");
    const id: string = await page.evaluate("document.activeElement.dataset.focus");
    for (let i = 0; i < 2; i++) {
      const asked = page.waitForResponse((response) => response.url().includes("/api/keys?"));
      await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
      await asked;
    }
    assert.equal(await page.evaluate("document.activeElement.dataset.focus"), id);
    assert.deepEqual(opened.problems, []);
  }));

test("the colours follow the system until the user chooses, and the choice is kept", (t) =>
  both(t, async (browser, gateway) => {
    const opened = await open(browser, gateway, { colorScheme: "dark" });
    const { page } = opened;
    await enter(opened, gateway.key);
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
    assert.deepEqual(opened.problems, []);
  }));

/** Contrast ratio of an element's text to its background, as WCAG 2.2 defines it. */
const contrast = `(element) => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((part) =>
      part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let ground = element;
  while (getComputedStyle(ground).backgroundColor === "rgba(0, 0, 0, 0)") ground = ground.parentElement;
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor].map(light).sort((x, y) => x - y);
  return (b + 0.05) / (a + 0.05);
}`;

test("text has a contrast of at least 4.5 to 1, light and dark", (t) =>
  both(t, async (browser, gateway) => {
    await call(gateway, gateway.key);
    await call(gateway, undefined);
    for (const colorScheme of ["light", "dark"] as const) {
      const opened = await open(browser, gateway, { colorScheme });
      const { page } = opened;
      await enter(opened, gateway.key);
      for (const name of ["Live", "Usage", "Keys", "Health", "Pipeline"]) {
        await view(page, name);
        await page.locator(".loading").first().waitFor({ state: "detached" });
        const faint = await page.evaluate(`[...document.querySelectorAll("body *")]
          .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== ""))
          .filter((e) => e.checkVisibility() && !["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName))
          .map((e) => [e.textContent, (${contrast})(e)])
          .filter(([, ratio]) => ratio < 4.5)`);
        assert.deepEqual(faint, [], `${colorScheme} ${name}`);
      }
      await page.context().close();
    }
  }));

test("on a phone, no view has to be scrolled sideways", (t) =>
  both(t, async (browser, gateway) => {
    await call(gateway, gateway.key);
    const opened = await open(browser, gateway, {
      viewport: { width: 390, height: 844 },
      hasTouch: true,
    });
    const { page } = opened;
    const excess = (): Promise<number> =>
      page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert.equal(await excess(), 0, "the sign-in page");
    await enter(opened, gateway.key);
    for (const name of ["Live", "Usage", "Keys", "Health", "Pipeline"]) {
      await view(page, name);
      await page.locator(".loading").first().waitFor({ state: "detached" });
      assert.equal(await excess(), 0, name);
    }
    await view(page, "Keys");
    await page.getByRole("button", { name: "New key" }).click();
    assert.equal(await excess(), 0, "a dialog");
    const inner = await page.evaluate(
      '(() => { const d = document.querySelector("dialog"); return d.scrollWidth - d.clientWidth; })()',
    );
    assert.equal(inner, 0);
    assert.deepEqual(opened.problems, []);
  }));

test("an explanation that is longer than the screen is shown from its top", (t) =>
  both(t, async (browser, gateway) => {
    const opened = await open(browser, gateway, { viewport: { width: 390, height: 360 } });
    const { page } = opened;
    await enter(opened, gateway.key);
    await page.getByText("No requests yet", { exact: true }).waitFor();
    assert.equal(await call(gateway, gateway.key), 200);
    const latest = page.getByRole("table", { name: "The latest requests, newest first" });
    await latest.getByRole("button").first().click();
    await page.getByRole("dialog", { name: "GET /call" }).waitFor();
    const { top, isLonger } = await page.evaluate<{ top: number; isLonger: boolean }>(
      '(() => { const d = document.querySelector("dialog"); return { top: d.scrollTop, isLonger: d.scrollHeight > d.clientHeight }; })()',
    );
    assert.deepEqual([top, isLonger], [0, true]);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate("document.activeElement.textContent"), "Close");
    assert.deepEqual(opened.problems, []);
  }));

test("the administrator of a workspace sees its views, and is signed out when the key is revoked", (t) =>
  both(t, async (browser, gateway) => {
    const { tenant } = gateway;
    const opened = await open(browser, gateway);
    const { page } = opened;
    await enter(opened, tenant.key);
    const links = page.getByRole("navigation").getByRole("link");
    assert.deepEqual(await links.allTextContents(), ["Live", "Usage", "Keys"]);
    await view(page, "Keys");
    await page.getByText(tenant.keyId).waitFor();
    assert.equal(await page.getByText(gateway.keyId).count(), 0);
    await page.getByRole("button", { name: "New key" }).click();
    assert.equal(await page.getByLabel("platform:admin").count(), 0);
    await page.getByRole("button", { name: "Cancel" }).click();
    assert.deepEqual(opened.problems, []);

    await page.getByRole("button", { name: "Revoke test" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("Your session has ended. Sign in again.").waitFor();
  }));

test("while the gateway does not answer, the page keeps its data and reports the failure", (t) =>
  both(t, async (browser, gateway) => {
    await call(gateway, gateway.key);
    const opened = await open(browser, gateway);
    const { page } = opened;
    await enter(opened, gateway.key);
    await page.getByText("1 since the start").waitFor();
    await page.route("**/api/live", (route) => route.abort());
    await page.getByText("Not up to date: the gateway does not answer. Trying again.").waitFor();
    assert.equal(await page.getByText("1 since the start").isVisible(), true);
    await page.unroute("**/api/live");
    await page.getByText("Not up to date").waitFor({ state: "hidden" });
  }));
