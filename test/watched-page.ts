/** Pages in Chromium for tests that check what the browser reports and what a reader sees. */
import { join } from "node:path";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";

/** Time limit of each wait in a page. It is long for slow machines and is not reached normally. */
const waitLimitMs = 60_000;

export interface WatchedPage {
  readonly page: Page;
  /** Console messages as `type: text`, exceptions, CSP violations and foreign requests of the pages from `origin`. */
  readonly problems: string[];
}

/** Opens an empty page in its own context. `alsoAllowed`: prefixes of further addresses that it may request. */
export async function openWatchedPage(
  browser: Browser,
  {
    origin,
    alsoAllowed = [],
    ...options
  }: BrowserContextOptions & { readonly origin: string; readonly alsoAllowed?: readonly string[] },
): Promise<WatchedPage> {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(waitLimitMs);
  const problems: string[] = [];
  const allowed = [origin, ...alsoAllowed];
  const isWatched = (): boolean => [origin, "about:"].some((start) => page.url().startsWith(start));
  page.on("console", (message) => {
    if (message.type() !== "debug" && isWatched()) {
      problems.push(`${message.type()}: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => problems.push(`thrown: ${error.message}`));
  page.on("request", (request) => {
    const isAllowed = allowed.some((start) => request.url().startsWith(start));
    if (!isAllowed && isWatched()) problems.push(`other origin: ${request.url()}`);
  });
  await page.addInitScript(
    'addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective))',
  );
  return { page, problems };
}

export function widthExcess(page: Page): Promise<number> {
  return page.evaluate(
    "document.documentElement.scrollWidth - document.documentElement.clientWidth",
  );
}

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
  // A background that is partly transparent hardly changes the one below it.
  while (ground !== null && getComputedStyle(ground).backgroundColor.startsWith("rgba(")) ground = ground.parentElement;
  const background = ground === null ? "Canvas" : getComputedStyle(ground).backgroundColor;
  const [a, b] = [getComputedStyle(element).color, background].map(light).sort((x, y) => x - y);
  return (b + 0.05) / (a + 0.05);
}`;

/** Returns the visible texts whose contrast is below 4.5 to 1, each with its contrast. */
export function faintTexts(page: Page): Promise<readonly [text: string, contrast: number][]> {
  return page.evaluate(`[...document.querySelectorAll("body *")]
    .filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== ""))
    .filter((e) => e.checkVisibility() && !["SCRIPT", "NOSCRIPT", "OPTION"].includes(e.tagName))
    .map((e) => [e.textContent, (${contrast})(e)])
    .filter(([, ratio]) => ratio < 4.5)`);
}

/** Writes a screenshot of the whole page into the folder that SCREENSHOTS names. Without it, does nothing. */
export async function saveScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env["SCREENSHOTS"];
  if (folder === undefined) return;
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}
