/** The view Plugins in a real Chromium, over a gateway with third-party plugins and live traffic. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage } from "../../../watched-page.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { version } from "../../../../src/base/version.ts";
import { ask, enter, signIn } from "./gateway.ts";
import { callTool, startWithPlugins } from "./plugins-gateway.ts";

function rowOf(page: Page, plugin: string): Locator {
  return page.locator("tr", { has: page.locator("th b", { hasText: plugin }) });
}

/** Returns the texts in the row of a plugin, by the title of their column. */
async function textsOf(page: Page, plugin: string): Promise<Record<string, string>> {
  const cells = rowOf(page, plugin).locator("[data-title]");
  const titles = await cells.evaluateAll((all) =>
    all.map((cell) => cell.getAttribute("data-title") ?? ""),
  );
  const texts = await cells.allInnerTexts();
  const text = (at: number): string => texts[at]?.replaceAll(/\s+/g, " ").trim() ?? "";
  return Object.fromEntries(titles.map((title, at) => [title, text(at)]));
}

test("the view lists the plugins with their manifests, and follows what they do", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const clock = manualClock();
  await using gateway = await startWithPlugins(clock);
  const { page, problems } = await openWatchedPage(browser, {
    origin: gateway.adminUrl,
    viewport: { width: 1280, height: 800 },
  });
  await page.goto(`${gateway.adminUrl}/dashboard`);
  await enter(page, gateway.key);
  await page.getByRole("navigation").getByRole("link", { name: "Plugins" }).click();
  const table = page.getByRole("table", { name: "Loaded plugins" });
  await table.waitFor();

  const dice = await textsOf(page, "acme-dice");
  assert.deepEqual(
    [dice["Kind"], dice["Version"], dice["Origin"], dice["Gets"]],
    [
      "tools",
      "2.3.4 contract ^1.1",
      "package acme-kit/dice with grants",
      "servers: dice.acme.com:443 environment: ACME_KEY",
    ],
  );
  assert.deepEqual([dice["Calls"], dice["Mean time"], dice["Threw"]], ["0", "–", "0"]);
  const shipped = await textsOf(page, "authenticate");
  assert.deepEqual([shipped["Version"], shipped["Origin"]], [version, "Sluice"]);
  // Plugins of others come first.
  const first = await table.locator("tbody th b").first().textContent();
  assert.match(first ?? "", /^acme-/);

  clock.advance(2_000);
  for (const tool of ["roll", "roll", "break", "refuse"]) await callTool(gateway, `acme_${tool}`);
  await table
    .getByRole("row", { name: /acme-dice/ })
    .getByText("4", { exact: true })
    .waitFor();
  const used = await textsOf(page, "acme-dice");
  const counts = ["Calls", "Refused", "Failed", "Threw"].map((title) => used[title]);
  assert.deepEqual(counts, ["4", "1", "1", "1"]);
  const refused = rowOf(page, "acme-dice").getByTitle("GATEWAY_CONFLICT 1");
  assert.equal(await refused.textContent(), "1");
  // The timer of the service has thrown twice, in the manual time of the gateway.
  const service = await textsOf(page, "acme-clock");
  assert.equal(service["Kind"], "service");
  await rowOf(page, "acme-clock")
    .getByTitle(/^timer: 2$/m)
    .waitFor();

  await page.getByRole("button", { name: "Services" }).click();
  await page.getByText("acme-dice").waitFor({ state: "detached" });
  await page.getByText("acme-clock", { exact: true }).waitFor();
  assert.match(page.url(), /#\/plugins\?kind=service$/);
  assert.deepEqual(problems, []);
});

test("only platform administrators read the list of plugins", async () => {
  await using gateway = await startWithPlugins();
  const { status } = await ask(gateway, "plugins");
  assert.equal(status, 401);
  const tenant = await gateway.issue({ plan: "enterprise", capabilities: ["workspace:admin"] });
  const denied = await ask(gateway, "plugins", { cookie: await signIn(gateway, tenant.key) });
  assert.equal(denied.status, 403);
  const { body } = await ask(gateway, "plugins", { cookie: await signIn(gateway, gateway.key) });
  const dice = body.plugins.find(({ name }: { name: string }) => name === "acme-dice");
  assert.deepEqual(
    [dice.kind, dice.version, dice.contract, dice.origin, dice.source, dice.has_grants],
    ["tools", "2.3.4", "^1.1", "package", "acme-kit/dice", true],
  );
  assert.deepEqual(dice.grants, {
    services: [],
    hosts: ["dice.acme.com:443"],
    env: ["ACME_KEY"],
    body: "none",
    deployment: [],
  });
});
