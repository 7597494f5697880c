/** The pipelines of docs/recipes and docs/migrate start, and the programs of clients.md and papi.md there run. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { cert, key } from "../certificate.ts";
import { temporaryFolder } from "../store/folder.ts";
import { root } from "./tables.ts";

const run = promisify(execFile);
const pages = globSync("docs/{recipes,migrate}/*.md", { cwd: root }).toSorted();

function blocks(page: string, language: string): string[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))].map(
    ([, block = ""]) => block,
  );
}

/** Pages without a pipeline. */
const clientPages = `
    agents.md claude-code.md clients.md codex.md connect.md opencode.md papi.md sdks.md`
  .trim()
  .split(/\s+/);

/** Pages whose pipeline answers a call in a test of its own. */
const answering = ["ai-gateway.md", "mcp-server.md", "proxy.md"];

const judgedElsewhere = [...clientPages, ...answering];
for (const page of pages.filter((each) => !judgedElsewhere.includes(basename(each)))) {
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

function writePrograms(
  t: TestContext,
  programs: readonly string[],
  { url, key: apiKey }: { readonly url: string; readonly key: string },
): { readonly folder: string; readonly files: readonly string[] } {
  const folder = temporaryFolder(t);
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "dir");
  const files = programs.map((text, at) => {
    const file = join(folder, `${at}.mts`);
    const program = text
      .replaceAll("http://127.0.0.1:8080", url)
      .replaceAll("ws://127.0.0.1:8080", url.replace("http:", "ws:"))
      .replaceAll("gateway_dev_…", apiKey);
    writeFileSync(file, program);
    return file;
  });
  return { folder, files };
}

test("the programs of docs/recipes/clients.md run and print a result", async (t) => {
  const programs = blocks("docs/recipes/clients.md", "ts");
  assert.equal(programs.length, 2);
  const model = await startDemoModel({ tokenMs: 0 });
  t.after(() => model.close());
  const node = await startDemoNode();
  t.after(() => node.close());
  await using gateway = await startTestGateway({
    pipeline: readFileSync(join(root, "pipeline.yaml"), "utf8"),
    env: { LEDGER_RPC_URL: node.url, CONFIDENTIAL_CLASSIC_URL: model.url },
  });
  const { folder, files } = writePrograms(t, programs, gateway);
  for (const [at, file] of files.entries()) {
    const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: 60_000 });
    const text = programs[at] ?? "";
    assert.match(stdout, text.includes('"Hello"') ? /Hello/ : /\w+/, text);
  }
});

/** Runs a program that does not end until it has printed `count` lines. Rejects if it ends before that. */
async function firstLines(file: string, cwd: string, count: number): Promise<string[]> {
  const child = spawn(process.execPath, [file], { cwd, timeout: 60_000 });
  const closed = once(child, "close");
  const errors: string[] = [];
  child.stderr.on("data", (bytes: Buffer) => errors.push(bytes.toString()));
  const lines: string[] = [];
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      if (lines.push(line) === count) return lines;
    }
    throw new Error(`the program ended: ${errors.join("")}`);
  } finally {
    child.kill("SIGKILL");
    await closed;
  }
}

test("the programs of docs/recipes/papi.md print blocks", async (t) => {
  const [papi = "", polkadot = "", ...others] = blocks("docs/recipes/papi.md", "ts");
  assert.deepEqual(others, []);
  const node = await startDemoNode();
  t.after(() => node.close());
  await using gateway = await startTestGateway({
    pipeline: readFileSync(join(root, "pipeline.yaml"), "utf8"),
    env: { LEDGER_RPC_URL: node.url },
  });
  const { folder, files } = writePrograms(t, [papi, polkadot], gateway);
  const [finalized = "", now = "", next] = await firstLines(files[0] ?? "", folder, 3);
  assert.match(finalized, /^finalized \d+ 0x[0-9a-f]{64}$/);
  assert.match(now, /^\d+n$/);
  assert.equal(next, finalized.split(" ")[1]);
  const [head = ""] = await firstLines(files[1] ?? "", folder, 1);
  assert.match(head, /^\d+$/);
});
