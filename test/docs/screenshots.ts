/**
 * Makes the screenshots in docs/images from a running gateway with traffic: `node test/docs/screenshots.ts`. It needs
 * Chromium. Run it after the page has changed.
 */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { launch } from "../browser.ts";
import { call, startWatched, type Watched } from "../plugins/dashboard/dashboard/gateway.ts";

const folder = join(import.meta.dirname, "../../docs/images");
const size = { width: 1120, height: 720 };

/** The views, and a text that they show when they have data. */
const views: readonly (readonly [string, string])[] = [
  ["live", "No valid key"],
  ["keys", "of 2 CU"],
  ["workspaces", "no limit"],
  ["pipeline", "refused"],
];

await using gateway = await startWatched();
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: size, reducedMotion: "reduce" });
  await page.goto(`${gateway.adminUrl}/dashboard`);
  await page.getByLabel("API key").fill(gateway.key);
  await page.keyboard.press("Enter");
  await page.getByText("No requests yet", { exact: true }).waitFor();
  await makeTraffic(gateway);
  for (const [name, text] of views) await capture(page, name, text);
} finally {
  await browser.close();
}

/** Makes calls that are answered and calls that are refused. */
async function makeTraffic(target: Watched): Promise<void> {
  for (let i = 0; i < 12; i++) {
    await call(target, target.tenant.key, i % 3 === 0 ? "/free" : "/call");
    if (i % 2 === 0) await call(target, target.key);
    if (i % 4 === 0) await call(target, undefined);
  }
}

async function capture(page: Page, name: string, text: string): Promise<void> {
  await page.goto(`${gateway.adminUrl}/dashboard#/${name}`);
  await page.getByText(text).first().waitFor();
  await page.screenshot({ path: join(folder, `dashboard-${name}.png`) });
}
