/** `sluice init`: what it writes, what it refuses, and that every template passes the check, starts and serves. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { check } from "../../src/commands/check.ts";
import { UsageError } from "../../src/commands/command.ts";
import { shippedPipeline } from "../../src/commands/config-file.ts";
import { init, loadTemplates, schemaLine } from "../../src/commands/init.ts";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { packageFile } from "../../src/base/package-files.ts";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { closed, listening } from "../e2e/rpc-node.ts";
import { temporaryFolder } from "../store/folder.ts";
import { commandLine } from "./command-line.ts";

const templates = Object.entries(await loadTemplates());

const read = (folder: string, name = "pipeline.yaml"): string =>
  readFileSync(join(folder, name), "utf8");

test("the default template is identical to the shipped pipeline.yaml", async (t) => {
  const folder = temporaryFolder(t);
  const { code, err } = await commandLine(t).run(init, "--dir", folder);
  assert.deepEqual([code, err], [0, []]);
  const shipped = readFileSync(shippedPipeline, "utf8");
  assert.equal(read(folder), shipped.replace(/^# yaml-language-server:.*\n#\n/, ""));
});

for (const [template, { file }] of templates) {
  test(`the template ${template} is written unchanged and has no faults`, async (t) => {
    const { run, json, folder } = commandLine(t);
    const target = join(folder, "app");
    const files = [join(target, "pipeline.yaml"), join(target, ".env.example")];
    const printed = await json(init, "--template", template, "--dir", target);
    assert.deepEqual(printed, { template, files });
    const [, rest] = readFileSync(packageFile(file), "utf8").split(/^# yaml-language.*\n#\n/);
    assert.equal(read(target), rest);
    writeFileSync(join(folder, "pipeline.yaml"), read(target));
    const { code, out } = await run(check);
    assert.equal(code, 0, out.join("\n"));
  });

  test(`.env.example of ${template} lists every variable with its meaning and default`, async (t) => {
    const folder = temporaryFolder(t);
    await commandLine(t).run(init, "--template", template, "--dir", folder);
    const lines = read(folder, ".env.example").split("\n");
    const uncommented = read(folder).replaceAll(/^\s*#.*$|\s#\s.*$/gm, "");
    const names = [...uncommented.matchAll(/\$\{(\w+):-([^}]*)\}/g)];
    assert.ok(names.length >= 7);
    for (const [, name = "", fallback = ""] of names) {
      const at = lines.indexOf(`#${name}=${fallback}`);
      assert.notEqual(at, -1, name);
      assert.match(lines[at - 1] ?? "", /^# \S.*\.|:/, name);
    }
  });
}

test("existing files are kept, unless --force is given", async (t) => {
  for (const existing of ["pipeline.yaml", ".env.example"]) {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, existing), "mine");
    const { run } = commandLine(t);
    const refused = await run(init, "--dir", folder);
    assert.equal(refused.code, 1);
    assert.match(refused.err.join("\n"), new RegExp(`nothing was written.*${existing}`));
    assert.match(refused.err.join("\n"), /--force/);
    assert.equal(read(folder, existing), "mine");
    const other = existing === "pipeline.yaml" ? ".env.example" : "pipeline.yaml";
    assert.equal(existsSync(join(folder, other)), false);
    assert.equal((await run(init, "--dir", folder, "--force")).code, 0);
    assert.notEqual(read(folder, existing), "mine");
  }
});

test("a folder that cannot be written is reported, with exit code 1", async (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "file"), "");
  const { code, err } = await commandLine(t).run(init, "--dir", join(folder, "file", "app"));
  assert.equal(code, 1);
  assert.match(err.join("\n"), /^init: cannot write to .*ENOTDIR/);
});

test("a usage error names the mistake", async (t) => {
  const { run } = commandLine(t);
  for (const [argv, said] of [
    [["--template", "ia"], /--template: unknown value "ia"; did you mean "ai"\?/],
    [["here"], /unexpected argument "here"/],
  ] as const) {
    await assert.rejects(run(init, ...argv), (error) => {
      assert.ok(error instanceof UsageError);
      assert.match(error.message, said);
      return true;
    });
  }
});

test("the first line names the schema where Sluice is installed in the folder", (t) => {
  // This is the repository itself: the schema is located below its parent folder.
  const root = join(import.meta.dirname, "../..");
  const parent = join(root, "..");
  assert.match(
    schemaLine(parent) ?? "",
    /^# yaml-language-server: \$schema=\.\/[^/]+\/pipeline\.schema\.json$/,
  );
  assert.equal(schemaLine(root), "# yaml-language-server: $schema=./pipeline.schema.json");
  assert.equal(schemaLine(temporaryFolder(t)), undefined);
});

interface Serving {
  readonly template: string;
  readonly env: Readonly<Record<string, string>>;
}

async function serving(
  t: TestContext,
  { template, env }: Serving,
  work: (
    gateway: TestGateway,
    post: (path: string, body: unknown) => Promise<Response>,
  ) => Promise<void>,
): Promise<void> {
  const folder = temporaryFolder(t);
  await commandLine(t).run(init, "--template", template, "--dir", folder);
  await using gateway = await startTestGateway({ pipeline: read(folder), env });
  const ready = await fetch(`${gateway.adminUrl}/readyz`);
  assert.equal(ready.status, 200, await ready.text());
  if (template !== "proxy") await assertTakesFromKey(gateway);
  await work(gateway, (path, body) =>
    fetch(gateway.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

/** Finding D6: without `authenticate` everyone at an address shared its bucket. `proxy` passes every path on. */
async function assertTakesFromKey({ url, key }: TestGateway): Promise<void> {
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(`${url}/no/such/path`, { headers });
  assert.equal(answer.status, 404);
  assert.match(answer.headers.get("ratelimit-policy") ?? "", /^"key"/);
}

const health = { jsonrpc: "2.0", id: 1, method: "system_health", params: [] };

for (const template of ["full", "ledger"] as const) {
  test(`the template ${template} serves the node, and unknown paths take from the bucket of a key`, async (t) => {
    const node = await startDemoNode();
    t.after(() => node.close());
    await serving(t, { template, env: { LEDGER_RPC_URL: node.url } }, async (_, post) => {
      const answer = await post("/v1/ledger/rpc", health);
      assert.equal(answer.headers.get("x-used-cu-milli"), "100");
      assert.match(await answer.text(), /"result":\{"peers"/);
    });
  });
}

for (const template of ["full", "ai"] as const) {
  test(`the template ${template} serves chat completions, and unknown paths take from the bucket of a key`, async (t) => {
    const model = await startDemoModel({ tokenMs: 1 });
    t.after(() => model.close());
    const env = {
      CONFIDENTIAL_CLASSIC_URL: model.url,
      CONFIDENTIAL_CLASSIC_STATUS_URL: model.statusUrl,
      TOKEN_USD_RATE: "0.25",
    };
    await serving(t, { template, env }, async (gateway, post) => {
      const messages = [{ role: "user", content: "Hello" }];
      const answer = await post("/v1/chat/completions", { model: demoModelId, messages });
      assert.equal(answer.status, 200);
      // The body of a chat completion with Sluice's usage.
      const { usage } = (await answer.json()) as { usage: { usedCUMilli: number } };
      assert.ok(usage.usedCUMilli > 0);
      const models = await fetch(`${gateway.url}/v1/models`, {
        headers: { authorization: `Bearer ${gateway.key}` },
      });
      assert.match(await models.text(), new RegExp(demoModelId));
    });
  });
}

test("the template mcp serves tools, and unknown paths take from the bucket of a key", async (t) => {
  const node = await startDemoNode();
  t.after(() => node.close());
  await serving(t, { template: "mcp", env: { LEDGER_RPC_URL: node.url } }, async (_, post) => {
    const answer = await post("/mcp", { tool: "ledger_getHealth", input: {} });
    assert.equal(answer.status, 200);
    assert.match(await answer.text(), /isSyncing/);
  });
});

test("the template proxy asks for a key, forwards and charges", async (t) => {
  const upstream = createServer((req, res) => {
    res.end(JSON.stringify({ path: req.url, authorization: req.headers.authorization ?? null }));
  });
  const url = await listening(upstream);
  t.after(() => closed(upstream));
  await serving(t, { template: "proxy", env: { UPSTREAM_URL: url } }, async (gateway, post) => {
    assert.equal((await fetch(`${gateway.url}/orders`)).status, 401);
    const answer = await post("/orders?page=2", {});
    assert.deepEqual(await answer.json(), { path: "/orders?page=2", authorization: null });
    const charges = [...readUsage(join(gateway.folder, "data"), {})];
    assert.deepEqual(
      charges.map(({ usedMilliCu }) => usedMilliCu),
      [1_000],
    );
  });
});
