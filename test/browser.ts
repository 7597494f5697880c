/** A Chromium for tests of pages: Debian's, driven by playwright-core, which downloads none. */
import { existsSync } from "node:fs";
import type { TestContext } from "node:test";
import { chromium, type Browser } from "playwright-core";

const places = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"];

/** Where Chromium is; undefined: not installed. CI has it. */
export const chromiumPath = places.find((path) => path !== undefined && existsSync(path));

/**
 * Launches Chromium, closed after the test. Without one the test is skipped (undefined), and with CI=true it fails: what
 * CI skips, nobody runs.
 */
export async function launchChromium(t: TestContext): Promise<Browser | undefined> {
  if (chromiumPath === undefined) {
    if (process.env["CI"] === "true") throw new Error("CI needs chromium: see .ci/run");
    t.skip("needs chromium");
    return undefined;
  }
  const browser = await chromium.launch({
    executablePath: chromiumPath,
    // Containers give root no user namespaces and little shared memory.
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  t.after(() => browser.close());
  return browser;
}
