/** `sluice plugin test` on plugins that hang, end the process or leave something running: each is a failure. */
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { judgePackage, type Judged } from "../../src/commands/plugin/judge-package.ts";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { temporaryFolder } from "../store/folder.ts";
import { commandLine } from "./command-line.ts";

const root = join(import.meta.dirname, "../..");

/** Writes a package with one plugin, whose code is the rest of its object. */
function packageWith(t: TestContext, kind: string, code: string, before = ""): string {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, "node_modules"));
  symlinkSync(root, join(folder, "node_modules/sluice-gateway"), "dir");
  const manifest = { name: "bad", version: "1.0.0", type: "module", exports: "./index.js" };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  writeFileSync(
    join(folder, "index.js"),
    `${before}
export default { kind: "${kind}", name: "bad", contract: "^1", description: "Breaks a rule.", ${code} };`,
  );
  return folder;
}

function lastOf(judged: readonly Judged[]): string {
  const last = judged[0]?.findings.at(-1);
  return `${last?.rule}: ${last?.problems.join()}`;
}

function judgeFor(t: TestContext, folder: string, ruleMs: number): Promise<Judged[]> {
  return judgePackage(folder, { signal: t.signal, ruleMs });
}

test("a plugin that leaves a timer or a server breaks the rule frees, and the command ends", async (t) => {
  const leak = `setInterval(() => {}, 1_000);
    http.createServer().listen(0, "127.0.0.1");
    return { requestHeaders() {} };`;
  const folder = packageWith(t, "step", `start() { ${leak} }`, 'import http from "node:http";');
  const { code, out } = await commandLine(t).run(plugin, "test", folder, "--rule", "frees");
  assert.equal(code, 1);
  assert.match(out.join("\n"), /FAIL {2}frees: still active after the stop: .*Timeout/);
});

test("a plugin that counts in a variable of its module breaks the rule threads", async (t) => {
  const start =
    "start: () => ({ requestHeaders: () => ({ status: 200, headers: [], body: String(++count) }) })";
  const folder = packageWith(t, "step", start, "let count = 0;");
  const { code, out } = await commandLine(t).run(plugin, "test", folder, "--rule", "threads");
  assert.equal(code, 1);
  assert.match(
    out.join("\n"),
    /FAIL {2}threads: body 2 is 1 instead of 2 if two threads take turns/,
  );
});

test("a plugin that ends the process in a hook breaks the rule that ran", async (t) => {
  const folder = packageWith(t, "step", "start: () => ({ requestHeaders() { process.exit(0); } })");
  const { code, out } = await commandLine(t).run(plugin, "test", folder);
  assert.equal(code, 1);
  assert.match(out.at(-1) ?? "", /FAIL {2}settles: the process ended early \(exit code 0\)/);
});

test("a module that ends the process is refused", async (t) => {
  const folder = packageWith(t, "step", "start: () => ({})", "process.exit(0);");
  const { code, err } = await commandLine(t).run(plugin, "test", folder);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /cannot be imported: the process ended early \(exit code 0\)/);
});

test("an exception in a timer of the plugin is named", async (t) => {
  const throwing = 'setTimeout(() => { throw new Error("too late"); }, 1);';
  const folder = packageWith(
    t,
    "step",
    `start: () => ({ requestHeaders: () => new Promise(() => { ${throwing} }) })`,
  );
  const judged = await judgeFor(t, folder, 60_000);
  assert.equal(lastOf(judged), "settles: an exception that nothing caught: too late");
});

test("an endless loop, and a start that never returns, end at the limit of a rule", async (t) => {
  const bad = {
    settles: "start: () => ({ requestHeaders() { for (;;); } })",
    starts: "start: () => new Promise(() => {})",
  };
  const judge = async ([rule, code]: [string, string]): Promise<void> => {
    const judged = await judgeFor(t, packageWith(t, "step", code), 4_000);
    assert.equal(lastOf(judged), `${rule}: it did not end within 4 s`);
  };
  await Promise.all(Object.entries(bad).map(judge));
});

test("a command that is stopped ends the process of the suite", async (t) => {
  const folder = packageWith(t, "step", "start: () => ({ requestHeaders() { for (;;); } })");
  const temporary = temporaryFolder(t);
  const { TMPDIR = tmpdir() } = process.env;
  process.env["TMPDIR"] = temporary;
  t.after(() => (process.env["TMPDIR"] = TMPDIR));
  const stopping = new AbortController();
  const begun = Promise.withResolvers<void>();
  const judging = judgePackage(folder, {
    signal: stopping.signal,
    onProgress: () => begun.resolve(),
  });
  await begun.promise;
  stopping.abort();
  assert.match(lastOf(await judging), /the process ended early \(SIGKILL\)/);
  assert.deepEqual(readdirSync(temporary), []);
});
