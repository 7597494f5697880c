/** Launches Debian's Chromium for tests of pages, driven by playwright-core, which does not download a browser. */
import { existsSync } from "node:fs";
import type { TestContext } from "node:test";
import { chromium, type Browser } from "playwright-core";

const places = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser"];
const executablePath = places.find((path) => path !== undefined && existsSync(path));

export async function launchChromium(t: TestContext): Promise<Browser | undefined> {
  const browser = await openChromium(t);
  if (browser !== undefined) t.after(() => browser.close());
  return browser;
}

/**
 * Launches Chromium for several tests. The caller closes it. Without Chromium, skips the test and returns undefined;
 * with CI=true it throws, because nobody else runs a test that CI skips.
 */
export async function openChromium(t: TestContext): Promise<Browser | undefined> {
  if (executablePath === undefined) {
    if (process.env["CI"] === "true") throw new Error("CI needs chromium: see .ci/run");
    t.skip("needs chromium");
    return undefined;
  }
  return launch();
}

export function launch(): Promise<Browser> {
  if (executablePath === undefined) throw new Error("this needs chromium");
  // In containers, root has no user namespaces and little shared memory.
  const args = ["--no-sandbox", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath, args });
}
