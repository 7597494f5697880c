/** The panel of all gateways in a real Chromium, with two gateways on one PostgreSQL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage, saveScreenshot } from "../../../watched-page.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { upgrade } from "../../billing/shipping/fixture.ts";
import { call, enter, pipeline } from "./gateway.ts";

const secret = "a secret of these gateways";

function start(url: string, name: string, includedCu: number): Promise<TestGateway> {
  return startTestGateway({
    pipeline: pipeline.replace(
      "rps: 1000, includedCu: 1000",
      `rps: 1000, includedCu: ${includedCu}`,
    ),
    env: { DATABASE_URL: url, GATEWAY_SECRET: secret, REPLICA_NAME: name },
    account: { capabilities: ["platform:admin", "ledger:read"] },
  });
}

test("the panel shows both gateways, one that has died, and that their settings differ", async (t: TestContext) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  await using one = await start(url, "one", 1000);
  const two = await start(url, "two", 1001);
  await using _two = two;
  assert.equal(await call(two, one.key), 200);
  const { page } = await openWatchedPage(browser, {
    origin: one.adminUrl,
    viewport: { width: 1280, height: 800 },
  });
  await page.goto(`${one.adminUrl}/dashboard`);
  await enter(page, one.key);
  await page.getByRole("navigation").getByRole("link", { name: "Health" }).click();
  const table = page.getByRole("table", { name: "Gateways on this database" });
  const row = (name: RegExp) => table.getByRole("row", { name });
  await row(/^one \(this one\) ready.*settings differ from 1 other gateway.*answers/).waitFor();
  await row(/^two ready.*settings differ from 1 other gateway.*answers/).waitFor();
  await page.getByText("settings differ", { exact: true }).waitFor();
  await runSql(
    url,
    "INSERT INTO sluice.gateways VALUES ('x', 'three', '1', sluice.now_ms() - 60000)",
  );
  await row(/^three no answer ?last heartbeat .* ago/).waitFor();
  await saveScreenshot(page, "gateways");
  await two[Symbol.asyncDispose]();
  await row(/^two /).waitFor({ state: "detached" });
  await page.getByText("settings differ", { exact: true }).waitFor({ state: "detached" });
});
