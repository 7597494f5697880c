/** Builds the documentation site and checks its links, its pages and what a browser shows. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, extname, join } from "node:path";
import { after, test } from "node:test";
import { ownPages, ownUrl } from "../../plugins/tools/docs-search/folders.ts";
import { bind } from "../../src/http/bind.ts";
import { launchChromium } from "../browser.ts";
import { faintTexts, saveScreenshot, widthExcess } from "../watched-page.ts";
import { root } from "./tables.ts";

const site = mkdtempSync(join(tmpdir(), "sluice-site-"));
after(() => rmSync(site, { recursive: true, force: true }));
const vitepress = join(root, "node_modules/vitepress/bin/vitepress.js");
execFileSync(process.execPath, [vitepress, "build", "docs", "--outDir", site], {
  cwd: root,
  stdio: "pipe",
});

const pages = globSync("**/*.html", { cwd: site }).toSorted();

function read(page: string): string {
  return readFileSync(join(site, page), "utf8");
}

function values(html: string, attribute: string): string[] {
  return [...html.matchAll(new RegExp(` ${attribute}="([^"]*)"`, "g"))].map(([, value = ""]) =>
    decodeURI(value.replaceAll("&amp;", "&")),
  );
}

/** Returns the file of a link and its anchor; undefined for links to other sites. */
function target(page: string, link: string): { file: string; anchor: string } | undefined {
  if (/^\w+:/.test(link)) return undefined;
  const [path = "", anchor = ""] = link.split("#");
  const file = path.startsWith("/") ? path.slice(1) : join(dirname(page), path);
  if (path === "") return { file: page, anchor };
  return { file: file === "" || file.endsWith("/") ? `${file}index.html` : file, anchor };
}

test("every link and every anchor of the site leads somewhere", () => {
  const anchors = new Map(pages.map((page) => [page, new Set(values(read(page), "id"))]));
  const broken: string[] = [];
  let checked = 0;
  for (const page of pages) {
    const html = read(page);
    for (const link of [...values(html, "href"), ...values(html, "src")]) {
      const found = target(page, link);
      if (found === undefined) continue;
      checked += 1;
      const file = join(site, found.file);
      const isFile = existsSync(file) && statSync(file).isFile();
      const hasAnchor = found.anchor === "" || anchors.get(found.file)?.has(found.anchor) === true;
      if (!isFile || !hasAnchor) broken.push(`${page}: ${link}`);
    }
  }
  assert.deepEqual(broken, []);
  assert.ok(checked > 1_000);
});

test("the navigation of the site lists every page that docs_search serves", async () => {
  const linked = new Set(values(read("docs/operations.html"), "href"));
  const served = (await ownPages()).map(({ url }) => url.slice(ownUrl.length));
  assert.ok(served.length > 50);
  const missing = served.filter((page) => !linked.has(`/${page.replace(/\.md$/, ".html")}`));
  assert.deepEqual(missing, []);
});

test("the site loads nothing from other hosts", () => {
  const loaded = pages.flatMap((page) => {
    const tags = [...read(page).matchAll(/<(?:link|script|img)\b[^>]*>/g)].map(([tag]) => tag);
    return tags.flatMap((tag) => [...values(tag, "href"), ...values(tag, "src")]);
  });
  assert.deepEqual(
    loaded.filter((url) => /^(\w+:)?\/\//.test(url)),
    [],
  );
});

const types: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

async function serve(): Promise<{ url: string } & AsyncDisposable> {
  const server = createServer((req, res) => {
    const { pathname } = new URL(req.url ?? "/", "http://site");
    const file = join(site, pathname.endsWith("/") ? `${pathname}index.html` : pathname);
    const isFound = existsSync(file);
    const type = types[extname(file)] ?? "application/octet-stream";
    res.writeHead(isFound ? 200 : 404, { "content-type": type });
    res.end(isFound ? readFileSync(file) : "");
  });
  await bind(server, { section: "server", host: "127.0.0.1", port: 0 }, 16);
  const address = server.address();
  assert.ok(typeof address === "object" && address !== null);
  return {
    url: `http://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

for (const { device, viewport, colorScheme } of [
  { device: "phone", viewport: { width: 390, height: 844 }, colorScheme: "dark" },
  { device: "wide screen", viewport: { width: 1400, height: 900 }, colorScheme: "light" },
] as const) {
  test(`a browser shows and searches the site on a ${device}, ${colorScheme}`, async (t) => {
    const browser = await launchChromium(t);
    if (browser === undefined) return;
    await using server = await serve();
    const page = await browser.newPage({ viewport, colorScheme });
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (line) => line.type() === "error" && errors.push(line.text()));
    await page.goto(`${server.url}/docs/pipeline-yaml.html`, { waitUntil: "networkidle" });
    const isDark = await page.evaluate("document.documentElement.classList.contains('dark')");
    assert.equal(isDark, colorScheme === "dark");
    assert.equal(await page.evaluate("document.querySelector('main img').naturalWidth > 0"), true);
    assert.deepEqual(await faintTexts(page), []);
    await saveScreenshot(page, `site-${viewport.width}-${colorScheme}`);
    await page.keyboard.press("Control+k");
    await page.getByRole("searchbox").fill("certificate");
    const hit = page.getByRole("option").first();
    await hit.click();
    await page.waitForURL(/\.html#/);
    assert.deepEqual(errors, []);
  });
}

test("no page of the site is wider than a phone", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  await using server = await serve();
  const viewport = { width: 390, height: 844 };
  // The pages are rendered in advance, and load faster without their scripts.
  const context = await browser.newContext({ viewport, javaScriptEnabled: false });
  const page = await context.newPage();
  const wide: string[] = [];
  for (const name of pages) {
    await page.goto(`${server.url}/${name}`);
    if ((await widthExcess(page)) > 0) wide.push(name);
  }
  assert.deepEqual(wide, []);
});
