/** Sign-in at a real OpenID provider in a real Chromium. The provider is another site than the dashboard. */
import assert from "node:assert/strict";
import { after, test, type TestContext } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { openChromium } from "../../../../browser.ts";
import {
  faintTexts,
  openWatchedPage,
  widthExcess,
  type WatchedPage,
} from "../../../../watched-page.ts";
import { enter as enterKey, type Watched } from "../gateway.ts";
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
    // The session is still there after the page is loaded again.
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

test("a viewer has no buttons for changes, and no playground", (t) =>
  withBoth(t, async ({ open }) => {
    const { page, problems } = await open();
    await enter(page, "victor");
    await page.getByText("whole deployment, read only").waitFor();
    const links = page.getByRole("navigation").getByRole("link");
    assert.deepEqual(await links.allTextContents(), [
      "Live",
      "Spend",
      "Keys",
      "Workspaces",
      "Changes",
      "Health",
      "Pipeline",
      "Plugins",
    ]);
    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("cell", { name: "read only" }).first().waitFor();
    assert.equal(await page.getByRole("button", { name: /New key|Edit|Rotate|Revoke/ }).count(), 0);
    await page.getByRole("link", { name: "Workspaces" }).click();
    await page
      .getByRole("link", { name: /^Changes: / })
      .first()
      .waitFor();
    assert.equal(
      await page.getByRole("button", { name: /New workspace|Plan|Credit|Limit/ }).count(),
      0,
    );
    await page.goto(page.url().replace(/#.*/, "#/playground"));
    await page.getByText("All checks pass.").waitFor();
    assert.deepEqual(problems, []);
  }));

test("a user without a role, or who cancels, sees the reason and the sign-in page", (t) =>
  withBoth(t, async ({ open }) => {
    const { page, problems } = await open();
    await enter(page, "nobody");
    await page.getByRole("heading", { name: "Not signed in" }).waitFor();
    await page.getByText('its claim "groups" has none of the values that give one').waitFor();
    await page.getByText("GATEWAY_PERMISSION_DENIED").waitFor();
    // The browser itself writes the status of the page to the console.
    assert.match(problems.splice(0).join(), /^error: Failed to load resource.* 403 /);
    await page.getByRole("link", { name: "Back to the sign-in page" }).click();
    await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();

    await page.context().clearCookies();
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    await page.getByRole("link", { name: "[ Cancel ]" }).click();
    await page.getByText("Example ID did not confirm the sign-in.").waitFor();
    assert.match(problems.splice(0).join(), /^error: Failed to load resource.* 401 /);
  }));

test("while the provider is away, the form says so with a code, and a key still signs in", (t) =>
  withBoth(t, async ({ gateway, provider, open }) => {
    provider.stop();
    const { page, problems } = await open();
    await page.getByRole("button", { name: "Sign in with Example ID" }).click();
    const alert = page.getByRole("alert");
    await alert.getByText("Not signed in: Example ID cannot be reached").waitFor();
    assert.match((await alert.textContent()) ?? "", /\(GATEWAY_SERVICE_UNAVAILABLE\)\.$/);
    assert.match(problems.splice(0).join(), /^error: Failed to load resource.* 503 /);
    await enterKey(page, gateway.key);
    assert.deepEqual(problems, []);
  }));

test("the sign-in page and the page of a refusal are readable, light and dark, on a phone", (t) =>
  withBoth(t, async ({ gateway, open }) => {
    for (const colorScheme of ["light", "dark"] as const) {
      const { page } = await open({ colorScheme, viewport: { width: 390, height: 844 } });
      const judge = async (name: string): Promise<void> => {
        assert.deepEqual(await faintTexts(page), [], `${colorScheme} ${name}`);
        assert.equal(await widthExcess(page), 0, `${colorScheme} ${name}`);
      };
      await page.getByRole("button", { name: "Sign in with Example ID" }).waitFor();
      await judge("sign-in");
      await page.goto(`${gateway.adminUrl}/dashboard/oidc/callback`);
      await page.getByText("GATEWAY_INVALID_PARAMS").waitFor();
      await judge("refusal");
    }
  }));

test("the button is reached by the keyboard", (t) =>
  withBoth(t, async ({ provider, open }) => {
    const { page, problems } = await open();
    await page.getByLabel("API key").waitFor();
    const isThere = "document.activeElement.textContent.trim() === 'Sign in with Example ID'";
    for (let i = 0; i < 5 && !(await page.evaluate(isThere)); i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.origin === provider.issuer);
    assert.deepEqual(problems, []);
  }));
