/** The client and the page of `sluice connect` in a real browser, and the modules that a browser gets. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test, type TestContext } from "node:test";
import type { Browser, Page } from "playwright-core";
import {
  connect,
  type ConnectOptions,
  type FinalAnswer,
  type Session,
} from "../../../../plugins/confidential/client/client.ts";
import { writeCore } from "../../../../plugins/confidential/protocol/keyset.ts";
import { launchChromium } from "../../../browser.ts";
import { model } from "../confidential-relay/enclave-worker.ts";
import { startStreamGateway } from "../confidential-relay/stream-gateway.ts";
import { bundleClient } from "./bundle.ts";
import { platform, start, startFakeGateway, type FakeGateway } from "./fake-gateway.ts";
import { localKey, secret, startLocalGateway } from "../sealed-networks/local-gateway.ts";
import { close, listen } from "../../../../src/http/demo-server.ts";

const messages = [{ role: "user", content: "a secret" }];
const bundle = await bundleClient();

async function openPage(t: TestContext, browser: Browser): Promise<Page> {
  const server = createServer((request, response) => {
    const isScript = request.url === "/client.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? bundle.script : "<!doctype html><title>client</title>");
  });
  const url = await listen(server, 0, "127.0.0.1");
  t.after(() => close(server));
  const page = await browser.newPage();
  const errors: unknown[] = [];
  page.on("pageerror", (error) => errors.push(error));
  t.after(() => assert.deepEqual(errors, []));
  await page.goto(`${url}/`);
  return page;
}

interface ConversationResult {
  readonly text?: string;
  readonly session?: Pick<Session, "checks" | "evidence" | "assurance" | "role" | "keyset">;
  readonly final?: Omit<FinalAnswer, "signedReport">;
  readonly refused?: { readonly name: string; readonly code?: string; readonly checks?: unknown };
}

/** The options for the fake gateway as JSON, with a ticket instead of the key. */
function portable({ options }: FakeGateway, changes: object): ConnectOptions {
  const { apiKey: _, memory: __, clock: ___, ...rest } = options;
  return { ...rest, ticket: "a ticket", ...changes };
}

interface Conversation {
  readonly options: ConnectOptions;
  readonly now: number;
  readonly asked: readonly object[];
}

/** Runs in the page, so it cannot use anything else of this file. */
async function converse({ options, now, asked }: Conversation): Promise<ConversationResult> {
  const path = "/client.js";
  // The URL of the bundle.
  const client = (await import(path)) as { connect: typeof connect };
  const clock = {
    now: () => now,
    after(ms: number, task: () => void) {
      const timer = setTimeout(task, ms);
      return () => clearTimeout(timer);
    },
  };
  try {
    const session = await client.connect({ ...options, clock });
    const answer = session.chat({ messages: asked });
    let text = "";
    for await (const { content } of answer) text += content ?? "";
    const { signedReport: _, ...final } = await answer.final;
    await session.close();
    const { checks, evidence, assurance, role, keyset } = session;
    return { text, session: { checks, evidence, assurance, role, keyset }, final };
  } catch (error) {
    const { name, code, checks } = error as Error & { code?: string; checks?: unknown };
    return { refused: { name, ...(code && { code }), ...(checks !== undefined && { checks }) } };
  }
}

function inPage(
  page: Page,
  gateway: FakeGateway,
  changes: object = {},
): Promise<ConversationResult> {
  return page.evaluate(converse, {
    options: portable(gateway, changes),
    now: start,
    asked: messages,
  });
}

test("the client in Chromium", async (outer) => {
  const browser = await launchChromium(outer);
  if (browser === undefined) return;

  await outer.test("reaches the same verdict as in Node", async (t) => {
    const page = await openPage(t, browser);
    const gateway = await startFakeGateway(t);
    const outcome = await inPage(page, gateway);
    assert.equal(outcome.text, "Hello", JSON.stringify(outcome.refused));
    assert.equal(outcome.final?.verified, true);
    const hidden = `confidential.auth.${Buffer.from("a ticket").toString("base64url")}`;
    assert.deepEqual(gateway.upgrades, [
      { protocols: `confidential.v1, ${hidden}`, authorization: undefined },
    ]);
    assert.deepEqual(gateway.requests, []);
    const session = await connect(gateway.options);
    const { signedReport: _, ...final } = await session.chat({ messages }).final;
    await session.close();
    assert.deepEqual(outcome.session?.checks, session.checks);
    assert.deepEqual(outcome.final?.checks, final.checks);
    assert.deepEqual(
      { ...outcome.final, report: 0 },
      JSON.parse(JSON.stringify({ ...final, report: 0 })),
    );
    assert.equal(outcome.session?.evidence.imageHash, platform.imageHash);
    assert.equal(outcome.session?.keyset, session.keyset);
  });

  await outer.test("refuses an attack as Node does, and an API key by default", async (t) => {
    const page = await openPage(t, browser);
    const lowOrder = "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157";
    const epk = Uint8Array.from(Buffer.from(lowOrder, "hex"));
    const gateway = await startFakeGateway(t, { core: (core) => writeCore({ ...core, epk }) });
    const { refused } = await inPage(page, gateway);
    assert.equal(refused?.code, "BAD_FRAME", JSON.stringify(refused));
    assert.deepEqual([gateway.upgrades.length, gateway.frames], [1, 0], "no ciphertext");
    const node = await connect(gateway.options).catch((error: unknown) => error);
    assert.deepEqual(refused.checks, (node as { checks?: unknown }).checks);
    gateway.script = {};
    const key = { ticket: undefined, apiKey: "gateway_dev_key" };
    assert.equal((await inPage(page, gateway, key)).refused?.name, "TypeError");
    assert.equal(gateway.upgrades.length, 2, "the browser's first and Node's");
    const outcome = await inPage(page, gateway, { ...key, dangerouslyAllowBrowser: true });
    assert.equal(outcome.text, "Hello", JSON.stringify(outcome.refused));
    const hidden = `confidential.auth.${Buffer.from("gateway_dev_key").toString("base64url")}`;
    assert.equal(gateway.upgrades[2]?.protocols, `confidential.v1, ${hidden}`);
  });

  await outer.test(
    "connects to a whole gateway with a ticket for its page, once per ticket",
    async (t) => {
      const page = await openPage(t, browser);
      const { origin } = new URL(page.url());
      await using stream = await startStreamGateway({ origin });
      const { gateway, worker } = stream;
      const response = await fetch(`${gateway.url}/v1/confidential/tickets`, {
        method: "POST",
        headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
        body: JSON.stringify({ model, origin }),
      });
      const { ticket } = (await response.json()) as { ticket: string };
      const options: ConnectOptions = {
        url: gateway.url,
        ticket,
        network: "alpha",
        model,
        allowSimulated: true,
        simulatedRoots: [worker.root],
      };
      const outcome = await page.evaluate(converse, { options, now: Date.now(), asked: messages });
      assert.equal(outcome.text, "Hello world", JSON.stringify(outcome.refused));
      assert.deepEqual(
        [outcome.final?.verified, outcome.final?.unverifiedReason],
        [false, "simulated"],
      );
      assert.equal(outcome.final?.usedCUMilli, outcome.final?.recomputedCUMilli);
      const again = await page.evaluate(converse, { options, now: Date.now(), asked: messages });
      assert.equal(again.refused?.code, "CONNECTION_FAILED");
    },
  );
});

test("the client's modules use neither Node's modules nor server code", async () => {
  const { files } = await bundleClient();
  const own = files.filter((file) => file.startsWith("src/") || file.startsWith("plugins/"));
  const allowed =
    /^(plugins\/(confidential\/(client|protocol|verify)|contracts)\/|src\/(entries\/toolkit|base\/(bounded-map|canonical-json|csv|duration|error-code|guard|is-object|json-bounds|json-pointer|json-text|message-of|parse-json|shared-schemas|time-limit))\.ts$)/;
  assert.ok(own.includes("plugins/confidential/client/client.ts"));
  assert.ok(own.includes("plugins/confidential/verify/tdx.ts"));
  assert.deepEqual(
    own.filter((file) => !allowed.test(file) || file.includes("/node-")),
    [],
  );
});

test("the client depends only on the expected packages", async () => {
  const { files } = await bundleClient();
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/;
  const packages = new Set(files.flatMap((file) => name.exec(file)?.[1] ?? []));
  assert.deepEqual([...packages].toSorted(), [
    "@noble/hashes",
    "@peculiar/asn1-schema",
    "@peculiar/asn1-x509",
    "@peculiar/utils",
    "@phala/dcap-qvl",
    // The others are dependencies of dcap-qvl and asn1-schema, which run in a browser unchanged.
    "asn1.js",
    "asn1js",
    "base64-js",
    "bn.js",
    "brorand",
    "buffer",
    "elliptic",
    "hash.js",
    "hmac-drbg",
    "ieee754",
    "inherits",
    "minimalistic-assert",
    "minimalistic-crypto-utils",
    "node-fetch",
    "pvtsutils",
    "pvutils",
    "safer-buffer",
    "tslib",
  ]);
});

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
