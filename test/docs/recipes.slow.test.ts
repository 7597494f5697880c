/** The pipelines of docs/recipes and docs/migrate start, and the programs of docs/recipes/clients.md run. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { cert, key } from "../certificate.ts";
import { temporaryFolder } from "../store/folder.ts";
import { root } from "./tables.ts";

const run = promisify(execFile);
const pages = globSync("docs/{recipes,migrate}/*.md", { cwd: root }).toSorted();

/** The blocks of a page in a language. */
function blocks(page: string, language: string): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))].map(
    ([, block = ""]) => block,
  );
}

for (const page of pages.filter((each) => basename(each) !== "clients.md")) {
  test(`the pipeline of ${page} starts and is ready`, async () => {
    const [pipeline = ""] = blocks(page, "yaml").filter((text) => text.startsWith("version: 1"));
    assert.notEqual(pipeline, "");
    await using gateway = await startTestGateway({
      pipeline: pipeline
        .replace("host: 0.0.0.0", "host: 127.0.0.1")
        .replaceAll("/etc/ssl/", "./")
        // Addresses of an example, which the test must not call.
        .replaceAll(/10\.0\.0\.\d:\d+/g, "127.0.0.1:1"),
      prepare(folder) {
        writeFileSync(join(folder, "site.crt"), cert);
        writeFileSync(join(folder, "site.key"), key);
      },
    });
    const live = await fetch(`${gateway.adminUrl}/healthz`);
    assert.equal(live.status, 200);
  });
}

test("the recipe of an AI gateway answers a chat and charges it", async (t) => {
  const model = await startDemoModel({ tokenMs: 0 });
  t.after(() => model.close());
  const [pipeline = ""] = blocks("docs/recipes/ai-gateway.md", "yaml");
  await using gateway = await startTestGateway({ pipeline, env: { MODEL_URL: model.url } });
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: demoModelId, messages: [{ role: "user", content: "Hello" }] }),
  });
  assert.equal(response.status, 200);
  assert.ok(Number(response.headers.get("x-used-cu-milli")) > 0);
});

test("the recipe of an MCP server answers a tool call", async () => {
  const [pipeline = ""] = blocks("docs/recipes/mcp-server.md", "yaml");
  await using gateway = await startTestGateway({ pipeline });
  const response = await fetch(`${gateway.url}/mcp`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
    body: JSON.stringify({ tool: "docs_search", input: { query: "rate limit" } }),
  });
  assert.equal(response.status, 200);
  assert.match(await response.text(), /docs:/);
});

test("the recipe of a proxy forwards requests with a key", async (t) => {
  const model = await startDemoModel();
  t.after(() => model.close());
  const [pipeline = ""] = blocks("docs/recipes/proxy.md", "yaml");
  await using gateway = await startTestGateway({ pipeline, env: { UPSTREAM_URL: model.url } });
  const headers = { authorization: `Bearer ${gateway.key}` };
  const response = await fetch(`${gateway.url}/v1/models`, { headers });
  assert.equal(response.status, 200);
  assert.match(await response.text(), new RegExp(demoModelId));
  assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
});

test("the programs of docs/recipes/clients.md run and print a result", async (t) => {
  const programs = blocks("docs/recipes/clients.md", "ts");
  assert.equal(programs.length, 5);
  const model = await startDemoModel({ tokenMs: 0 });
  t.after(() => model.close());
  const node = await startDemoNode();
  t.after(() => node.close());
  await using gateway = await startTestGateway({
    pipeline: readFileSync(join(root, "pipeline.yaml"), "utf8"),
    env: { LEDGER_RPC_URL: node.url, CONFIDENTIAL_CLASSIC_URL: model.url },
  });
  const folder = temporaryFolder(t);
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "dir");
  for (const [at, text] of programs.entries()) {
    const file = join(folder, `${at}.mts`);
    const program = text
      .replaceAll("http://127.0.0.1:8080", gateway.url)
      .replaceAll("ws://127.0.0.1:8080", gateway.url.replace("http:", "ws:"))
      .replaceAll("gateway_dev_…", gateway.key);
    writeFileSync(file, program);
    const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: 60_000 });
    assert.match(stdout, text.includes('"Hello"') ? /Hello/ : /\w+/, text);
  }
});
