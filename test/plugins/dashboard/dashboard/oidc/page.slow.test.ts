/** Sign-in at a real OpenID provider in a real Chromium. The provider is another site than the dashboard. */
import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { openChromium } from "../../../../browser.ts";
import { openWatchedPage, type WatchedPage } from "../../../../watched-page.ts";
import type { Watched } from "../gateway.ts";
import { startWithOidc } from "./fixture.ts";
import { openRealProvider, type RealProvider } from "./real-provider.ts";

interface Both {
  readonly gateway: Watched;
  readonly provider: RealProvider;
  readonly open: (options?: BrowserContextOptions) => Promise<WatchedPage>;
}

let launched: Browser | undefined;
after(() => launched?.close());

async function withBoth(t: TestContext, run: (both: Both) => Promise<void>): Promise<void> {
  launched ??= await openChromium(t);
  if (launched === undefined) return;
  const browser = launched;
  await using provider = await openRealProvider({ olivia: ["ops"], victor: ["staff"] });
  await using gateway = await startWithOidc(provider.issuer, {
    options: "name: Example ID, scopes: [email, groups], roles: { admin: [ops], viewer: [staff] }",
  });
  provider.start(`${gateway.adminUrl}/dashboard/oidc/callback`);
  const contexts: { close(): Promise<void> }[] = [];
  const open = async (options: BrowserContextOptions = {}): Promise<WatchedPage> => {
    const opened = await openWatchedPage(browser, {
      origin: gateway.adminUrl,
      alsoAllowed: [provider.issuer],
      ...options,
    });
    const { page } = opened;
    contexts.push(page.context());
    // The pages of the provider ask for a font elsewhere.
    const isOwn = (url: URL): boolean => [gateway.adminUrl, provider.issuer].includes(url.origin);
    await page.route(
      (url) => !isOwn(url),
      (route) => route.abort(),
    );
    await page.goto(`${gateway.adminUrl}/dashboard`);
    return opened;
  };
  try {
    await run({ gateway, provider, open });
  } finally {
    for (const context of contexts) await context.close();
  }
}

async function enter(page: Page, name: string): Promise<void> {
  await page.getByRole("button", { name: "Sign in with Example ID" }).click();
  await page.getByPlaceholder("Enter any login").fill(name);
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

test("an administrator signs in, and is the author of a change; signing out ends the session", (t) =>
  withBoth(t, async ({ gateway, open }) => {
    const { page, problems } = await open();
    await enter(page, "olivia");
    await page.getByRole("navigation").waitFor();
    // The code of the provider is neither in the address nor in the history of the browser.
    assert.match(page.url(), /\/dashboard(#\/live)?$/);
    await page.getByText("olivia@example.org").waitFor();
    await page.getByText("whole deployment", { exact: true }).waitFor();
    await page.getByRole("link", { name: "Workspaces" }).click();
    await page.getByRole("button", { name: "New workspace" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("Blue");
    await dialog.getByRole("button", { name: "Create workspace" }).click();
    await page.getByRole("link", { name: "Blue", exact: true }).waitFor();
    await page.getByRole("link", { name: "Changes", exact: true }).click();
    await page.getByRole("cell", { name: "oidc:olivia (olivia@example.org)" }).waitFor();
    await page.reload();
    await page.getByRole("cell", { name: "oidc:olivia (olivia@example.org)" }).waitFor();
    const cookies = await page.context().cookies(`${gateway.adminUrl}/dashboard`);
    assert.deepEqual(
      cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite]),
      [[true, "Strict"]],
    );
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("You are signed out.").waitFor();
    assert.deepEqual(await page.context().cookies(`${gateway.adminUrl}/dashboard`), []);
    assert.deepEqual(problems, []);
  }));
