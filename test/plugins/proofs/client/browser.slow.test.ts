/** The providers in a browser: which files and packages they need, and that they reach the same verdicts as in Node. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import type { Checkpoint } from "../../../../plugins/proofs/proofs/finalized-chain.ts";
import type { VerifiedProvider } from "../../../../plugins/proofs/client/verified-provider.ts";
import { launchChromium } from "../../../browser.ts";
import { bundleClient } from "../../confidential/client/bundle.ts";
import { startLiar, startProvedDemo } from "./proved-demo.ts";

const { files, script } = await bundleClient(
  'export * from "./plugins/proofs/client/verified-provider.ts";',
);

test("the providers use neither Node's modules nor server code", () => {
  const own = files.filter((file) => file.startsWith("src/") || file.startsWith("plugins/"));
  const allowed =
    /^(plugins\/proofs\/(client|proofs|reads|trie)|src\/(base|config|entries))\/[\w-]+\.ts$/;
  assert.ok(own.includes("plugins/proofs/client/verified-provider.ts"));
  assert.deepEqual(
    own.filter((file) => !allowed.test(file)),
    [],
  );
  const packages = files.flatMap(
    (file) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? [],
  );
  assert.deepEqual([...new Set(packages)].toSorted(), ["@noble/hashes"]);
});

interface Read {
  readonly url: string;
  readonly checkpoint: Checkpoint;
  readonly params: readonly string[];
}

/** Runs in the page, so it cannot use anything else of this file. */
async function readInPage({ url, checkpoint, params }: Read): Promise<unknown> {
  const path = "/client.js";
  const client = (await import(path)) as { VerifiedProvider: typeof VerifiedProvider };
  const provider = new client.VerifiedProvider(url, { checkpoint });
  try {
    return await provider.send("state_getStorage", params);
  } catch (error) {
    return (error as { readonly code: unknown }).code;
  } finally {
    await provider.disconnect();
  }
}

test("a page reads verified values, and refuses a lie", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  const server = createServer((request, response) => {
    const isScript = request.url === "/client.js";
    response.setHeader("content-type", isScript ? "text/javascript" : "text/html");
    response.end(isScript ? script : "<!doctype html><title>client</title>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { url, chain } = await startProvedDemo(t);
  const liar = await startLiar(t, url, ({ proof }) => {
    const { nodes } = (proof ?? {}) as { readonly nodes?: unknown[] };
    nodes?.pop();
  });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const params = [
    "0x26aa394eea5630e07c48ae0c9558cef702a5c1b19ab7a04f536c519aca4983ac",
    chain.at(8).hash,
  ];
  const read = { checkpoint: chain.checkpoint(2), params };
  assert.equal(await page.evaluate(readInPage, { ...read, url }), "0x08000000");
  assert.equal(await page.evaluate(readInPage, { ...read, url: liar }), -32052);
});
