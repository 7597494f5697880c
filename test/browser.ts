/** A Chromium for tests of pages: Debian's, driven by playwright-core, which downloads none. */
import { existsSync } from "node:fs";
import type { TestContext } from "node:test";
import { chromium, type Browser } from "playwright-core";

const places = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"];
const executablePath = places.find((path) => path !== undefined && existsSync(path));

/** Launches Chromium, closed after the test, which is skipped without one (undefined). */
export async function launchChromium(t: TestContext): Promise<Browser | undefined> {
  const browser = await openChromium(t);
  if (browser !== undefined) t.after(() => browser.close());
  return browser;
}

/**
 * Launches Chromium for several tests; who launches it closes it. Without one the test is skipped (undefined), and with
 * CI=true it fails: what CI skips, nobody runs.
 */
export async function openChromium(t: TestContext): Promise<Browser | undefined> {
  if (executablePath === undefined) {
    if (process.env["CI"] === "true") throw new Error("CI needs chromium: see .ci/run");
    t.skip("needs chromium");
    return undefined;
  }
  // Containers give root no user namespaces and little shared memory.
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args });
}
