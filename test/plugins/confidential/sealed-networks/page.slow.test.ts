/** The page of `sluice connect` in a real browser. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { launchChromium } from "../../../browser.ts";
import { localKey, secret, startLocalGateway } from "./local-gateway.ts";

test("the page shows the verdict, the checks and the bills", { timeout: 60_000 }, async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const local = await startLocalGateway(t);
  await (await local.ask()).text();
  local.remote.script = { done: (frame) => ({ ...frame, usedCUMilli: 67 }) };
  await (await local.ask()).text();
  const page = await browser.newPage();
  const errors: unknown[] = [];
  page.on("pageerror", (error) => errors.push(error));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  await page.goto(local.url);
  await page.getByText("SIMULATED: no hardware attests this enclave").waitFor();
  await page.getByText("the bill is right").waitFor();
  await page
    .getByText("bill: 67 milli-CU were charged, but the counts and prices give 66")
    .waitFor();
  // On a phone, the list of requests scrolls by itself.
  await page.setViewportSize({ width: 390, height: 800 });
  assert.equal(await page.evaluate("document.documentElement.scrollWidth"), 390);
  const text = await page.content();
  assert.match(
    text,
    /the processor's certificate chain leads to Intel's root.* <small[^>]*>pck_chain</,
  );
  assert.match(text, /no policy key is pinned; not checked: the pinned key signed/);
  for (const hidden of [secret, localKey, "gateway_dev_key"]) assert.ok(!text.includes(hidden));
  local.remote.script = { state: { isDebug: true } };
  local.cut();
  await (await local.ask()).text();
  await page.getByText("REFUSED: ").waitFor();
  assert.deepEqual(errors, []);
});
