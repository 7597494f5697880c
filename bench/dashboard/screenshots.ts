/**
 * Makes the screenshots in docs/images from a running gateway with the demo node, the demo model and some traffic. Run
 * it after the page has changed: `node bench/dashboard/screenshots.ts`. It needs Chromium. With a folder as argument,
 * it also writes all views there, light and dark and on a phone, so that they can be judged.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { fillDataFolder } from "./fill.ts";
import { createRandom } from "../soak/random.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { systemClock } from "../../src/base/clock.ts";
import { startDemos } from "../../src/commands/dev.ts";
import type { Clock } from "../../src/plugin.ts";
import { launch } from "../../test/browser.ts";

const root = join(import.meta.dirname, "../..");
const images = join(root, "docs/images");
const allViews = process.argv[2];

/** `text`: what the view shows when it has data. */
const views: readonly (readonly [name: string, hash: string, text: string])[] = [
  ["live", "live", "system_health"],
  ["spend", "spend?range=30d&by=workspace", "Search team"],
  ["health", "health?range=24h&by=route", "/v1/chat/completions"],
  ["pipeline", "pipeline?routes=used", "refused"],
];
/** Views that are only made for judging. */
const others: typeof views = [
  ["spend-today", "spend?range=2d&by=model", "Qwen"],
  ["file", "pipeline?show=file", "same on disk"],
  ["stores", "pipeline?show=stores", "charges.db"],
  ["keys", "keys", "key 17"],
  ["workspaces", "workspaces", "Research"],
  ["changes", "changes", "key 17"],
  ["plugins", "plugins", "ledger-rpc"],
  ["playground", "playground", "Public address"],
];
const sizes = {
  light: { width: 1280, height: 800 },
  dark: { width: 1280, height: 800 },
  phone: { width: 390, height: 844 },
};
const minutesOfTraffic = 10;

const unknownKey = "gateway_dev_00000000000000000000000000000000";
/** The requests of the last minutes are made at once. Until then, the clock is behind. */
let behindMs = minutesOfTraffic * 60_000;
const clock: Clock = { ...systemClock, now: () => Date.now() - behindMs };

await using stack = new AsyncDisposableStack();
const demo = await startDemos({}, stack);
const gateway = stack.use(
  await startTestGateway({
    pipeline: readFileSync(join(root, "pipeline.yaml"), "utf8"),
    env: { ...demo.env, LOG_LEVEL: "silent" },
    account: { capabilities: ["platform:admin"] },
    clock,
    async prepare(folder) {
      const amount = {
        workspaces: 5,
        keys: 18,
        chargesPerDay: 800,
        days: 45,
        routes: 4,
        models: 4,
      };
      await fillDataFolder(join(folder, "data"), amount, clock.now());
    },
  }),
);
const random = createRandom(7);
const caller = await openCaller(gateway);
const browser = await launch();
try {
  await makePast();
  await capture(browser, "light", views, images, "dashboard-");
  if (allViews !== undefined) {
    for (const size of ["light", "dark", "phone"] as const) {
      await capture(browser, size, [...views, ...others], allViews, `${size}-`);
    }
  }
} finally {
  await browser.close();
}

interface Caller {
  readonly keys: readonly string[];
  readonly model: string | undefined;
}

async function openCaller(target: TestGateway): Promise<Caller> {
  const capabilities = ["ledger:read", "inference", "platform:read"] as const;
  const keys = [
    (await target.issue({ capabilities })).key,
    (await target.issue({ capabilities, rpsLimit: 20 })).key,
  ];
  const models = await send(`${target.url}/v1/models`, keys[0] ?? "", undefined);
  const { data } = models as { data: { id: string }[] };
  return { keys, model: data[0]?.id };
}

async function makePast(): Promise<void> {
  const steps = minutesOfTraffic * 12;
  for (let step = 0; step < steps; step++) {
    behindMs = (steps - 1 - step) * 5_000;
    await makeCalls(1 + random.int(3) + Math.round(4 * Math.sin(step / 12) ** 2));
  }
}

async function makeCalls(count: number): Promise<void> {
  const { url } = gateway;
  const methods = ["system_health", "chain_getHeader", "chain_getBlockHash", "system_chain"];
  for (let n = 0; n < count; n++) {
    const key = random.int(15) === 0 ? unknownKey : random.pick(caller.keys);
    if (random.int(4) === 0) {
      const messages = [{ role: "user", content: "A lock lifts boats" }];
      await send(`${url}/v1/chat/completions`, key, { model: caller.model, messages });
    } else {
      const call = { jsonrpc: "2.0", id: 1, method: random.pick(methods), params: [] };
      await send(`${url}/v1/ledger/rpc`, key, call);
    }
  }
}

async function send(url: string, key: string, body: object | undefined): Promise<unknown> {
  const response = await fetch(url, {
    method: body === undefined ? "GET" : "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return response.json();
}

async function capture(
  from: Browser,
  size: keyof typeof sizes,
  wanted: typeof views,
  folder: string,
  prefix: string,
): Promise<void> {
  const page = await from.newPage({
    viewport: sizes[size],
    colorScheme: size === "dark" ? "dark" : "light",
    reducedMotion: "reduce",
  });
  await signIn(page);
  await makeCalls(15);
  for (const [name, hash, text] of wanted) {
    await page.goto(`${gateway.adminUrl}/dashboard#/${hash}`);
    await page.getByText(text).filter({ visible: true }).first().waitFor();
    await page.locator(".loading").first().waitFor({ state: "detached" });
    const fullPage = folder !== images;
    await page.screenshot({ path: join(folder, `${prefix}${name}.png`), fullPage });
  }
  await page.close();
}

/** Opens Live, whose latest requests are kept only while somebody watches. */
async function signIn(page: Page): Promise<void> {
  await page.goto(`${gateway.adminUrl}/dashboard`);
  await page.getByLabel("API key").fill(gateway.key);
  await page.keyboard.press("Enter");
  await page.getByText("All checks pass.").waitFor();
}
