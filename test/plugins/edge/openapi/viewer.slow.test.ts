/** The page of the API in a real Chromium, and its code samples, which are run against a real gateway. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it, test } from "node:test";
import { promisify } from "node:util";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { startDemos } from "../../../../src/commands/dev.ts";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage, faintTexts, saveScreenshot } from "../../../watched-page.ts";

// A file for browsers, whose types another TypeScript project checks.
const file = "../../../../plugins/edge/openapi/viewer/samples.js";
const { samples } = (await import(file)) as {
  readonly samples: Readonly<Record<string, (request: object) => string>>;
};
const run = promisify(execFile);
const shipped = readFileSync(join(import.meta.dirname, "../../../../pipeline.yaml"), "utf8");
const stack = new AsyncDisposableStack();
let gateway: TestGateway;

before(async () => {
  const demo = await startDemos({}, stack);
  gateway = stack.use(
    await startTestGateway({
      pipeline: shipped,
      env: { ...demo.env, LOG_LEVEL: "silent" },
      account: { capabilities: ["ledger:read", "platform:read"] },
    }),
  );
});

after(() => stack.disposeAsync());

test("a reader enters a key, runs an operation and gets the code for it", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const { page, problems } = await openWatchedPage(browser, {
    origin: gateway.url,
    alsoAllowed: ["data:"],
  });
  await page.goto(`${gateway.url}/docs/api`);
  const headings = page.getByRole("heading", { level: 2 });
  assert.equal(await headings.first().textContent(), "Authentication");
  await page.getByLabel("API key for trying operations").fill(gateway.key);
  const operation = page.locator("#operations-Ledger_RPC-postV1LedgerRpc");
  await operation.getByRole("button", { name: "/v1/ledger/rpc" }).first().click();
  await operation.getByText("This operation needs an API key with ledger:read.").waitFor();
  const code = operation.locator(".samples pre");
  assert.match(await code.innerText(), /^curl -X POST 'http[^]*system_health/);
  await operation.getByRole("button", { name: "Execute" }).click();
  const answer = operation.locator(".live-responses-table");
  await answer.getByText("isSyncing").first().waitFor();
  await operation.getByText("Code for this request").waitFor();
  for (const [language, sign] of [
    ["Python", "urllib.request"],
    ["JavaScript", "await fetch("],
  ] as const) {
    await operation.getByRole("button", { name: language, exact: true }).click();
    const text = await code.innerText();
    assert.ok(text.includes(sign), text);
    assert.ok(text.includes("SLUICE_API_KEY") && text.includes("system_health"), text);
  }
  // The key is nowhere except in the field and in the requests.
  assert.ok(!(await page.content()).includes(gateway.key));
  const stored = await page.evaluate("[localStorage.length, sessionStorage.length]");
  assert.deepEqual(stored, [0, 0]);
  assert.deepEqual(await page.context().cookies(), []);
  // A WebSocket cannot be tried here.
  const socket = page.locator("#operations-Ledger_WebSocket-getV1LedgerRpc");
  await socket.getByRole("button", { name: "/v1/ledger/rpc" }).first().click();
  await socket.getByText("Connect to this path with a WebSocket client.").waitFor();
  assert.equal(await socket.getByRole("button", { name: "Execute" }).count(), 0);
  // Chromium suggests a form around the field for the key. It is no form, because nothing is submitted.
  assert.deepEqual(
    problems.filter((problem) => !problem.startsWith("verbose: [DOM]")),
    [],
  );
  assert.deepEqual(await faintTexts(page), []);
  await saveScreenshot(page, "api-light");
  // On a narrow screen and in the dark, the page needs no horizontal scrolling.
  await page.setViewportSize({ width: 360, height: 740 });
  await page.emulateMedia({ colorScheme: "dark" });
  assert.equal(await page.evaluate("document.documentElement.scrollWidth"), 360);
  await page.waitForFunction('document.documentElement.classList.contains("dark-mode")');
  // Swagger UI changes its colours gradually.
  await page.evaluate(
    "Promise.allSettled(document.getAnimations().map(({ finished }) => finished))",
  );
  assert.deepEqual(await faintTexts(page), []);
  await saveScreenshot(page, "api-dark");
  await page.reload();
  assert.equal(await page.getByLabel("API key for trying operations").inputValue(), "");
});

describe("a code sample", () => {
  const programs: Readonly<Record<string, readonly [string, string]>> = {
    curl: ["sh", "-c"],
    JavaScript: [process.execPath, "-e"],
    Python: ["python3", "-c"],
  };
  const text = `'"\\ $HOME \`id\` %s é 😀\n\t`;
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: text,
    method: "system_health",
    params: [],
  });

  for (const [language, sample] of Object.entries(samples)) {
    it(`in ${language} runs as it is shown, and sends every character unchanged`, async (t) => {
      const [program, option] = programs[language] ?? ["", ""];
      if (
        language === "Python" &&
        (await run(program, ["--version"]).catch(() => undefined)) === undefined
      ) {
        t.skip("needs python3");
        return;
      }
      const code = sample({
        method: "POST",
        url: `${gateway.url}/v1/ledger/rpc`,
        headers: { "Content-Type": "application/json", "X-Agent-Name": "it's" },
        needsKey: true,
        body,
      });
      const env = { ...process.env, SLUICE_API_KEY: gateway.key };
      const { stdout } = await run(program, [option, code], { env });
      const answer = stdout.slice(stdout.indexOf("{"));
      // The gateway answers with the id of the request.
      const { id, result } = JSON.parse(answer) as { id: string; result: object };
      assert.equal(id, text);
      assert.ok("isSyncing" in result);
    });
  }

  it("writes every JSON value, and bodies that are not JSON", () => {
    const request = { method: "POST", url: "http://a/", headers: {}, needsKey: false };
    const value = { a: [null, true, false, -1.5, "x", {}, []] };
    const python = samples["Python"]?.({ ...request, body: JSON.stringify(value) }) ?? "";
    for (const word of ["None", "True", "False", "-1.5", "{}", "[]"]) {
      assert.ok(python.includes(word), word);
    }
    assert.doesNotMatch(python, /\bos\b|Authorization/);
    for (const sample of Object.values(samples)) {
      assert.match(sample({ ...request, body: "it is text" }), /it is text/);
      assert.doesNotMatch(sample(request), /body|data/);
    }
  });
});
