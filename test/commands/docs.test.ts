import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { test, type TestContext } from "node:test";
import { loadLibrary } from "../../plugins/docs-search/library.ts";
import { search } from "../../plugins/docs-search/search-index.ts";
import { UsageError } from "../../src/commands/command.ts";
import { docs } from "../../src/commands/docs.ts";
import { commandLine, type CommandLine } from "./command-line.ts";

const guide = { path: "./guide", url: "https://docs.test/", suffix: ".md" };

function project(t: TestContext, tools: string): CommandLine {
  const line = commandLine(t);
  const pipeline = `version: 1
upstreams: { x: { urls: "http://127.0.0.1:9" } }
tools: ${tools}
routes: [{ path: /x, methods: [GET], to: { forward: { upstream: x } } }]
`;
  writeFileSync(line.configFile, pipeline);
  mkdirSync(join(line.folder, "guide"));
  writeFileSync(join(line.folder, "guide", "a.md"), "# Guide\n\nA unicorn.\n");
  return line;
}

const searched = `[{ docs-search: { own: false, folders: [{ path: ./guide, url: "https://docs.test/" }] } }]`;

test("the index is written and found again", async (t) => {
  const line = project(t, searched);
  const file = join(line.folder, "docs.json");
  const printed = await line.json(docs, "index", "--out", file);
  assert.deepEqual(printed, { file: relative(process.cwd(), file), pages: 1, paragraphs: 1 });
  const { index } = await loadLibrary(file, { own: false, folders: [guide] });
  assert.equal(search(index, "unicorn", 10)[0]?.url, "https://docs.test/a.md#guide");
  assert.deepEqual(readdirSync(line.folder).toSorted(), ["docs.json", "guide", "pipeline.yaml"]);
});

test("without --out it goes where the plugin will look for it, which need not be there before", async (t) => {
  const line = project(t, searched.replace("own: false", "own: false, index: docs.json"));
  const { code, out } = await line.run(docs, "index");
  assert.equal(code, 0);
  assert.match(out[0] ?? "", /docs\.json: 1 pages, 1 paragraphs$/);
  assert.ok(existsSync(join(line.folder, "docs.json")));
});

test("without --out and without the option it is wrong usage", async (t) => {
  await assert.rejects(project(t, searched).run(docs, "index"), UsageError);
});

for (const [argv, says] of [
  [[], /say which: index/],
  [["idnex"], /did you mean "index"/],
  [["index", "more"], /one argument too many/],
] as const) {
  test(`wrong usage: docs ${argv.join(" ")}`, async (t) => {
    await assert.rejects(project(t, searched).run(docs, ...argv), (error) => {
      assert.ok(error instanceof UsageError);
      assert.match(error.message, says);
      return true;
    });
  });
}

test("a pipeline without docs-search has nothing to index", async (t) => {
  const line = project(t, "[]");
  const { code, err } = await line.run(docs, "index", "--out", join(line.folder, "x.json"));
  assert.equal(code, 1);
  assert.match(err.join("\n"), /no docs-search under `tools:`/);
});

test("a pipeline that is wrong is told like by check", async (t) => {
  const line = project(t, "[{ docs-search: { own: perhaps } }]");
  const { code, err } = await line.run(docs, "index", "--out", join(line.folder, "x.json"));
  assert.equal(code, 1);
  assert.match(err.join("\n"), /pipeline\.yaml:3:\d+ {2}SLUICE_/);
});

test("Markdown that cannot be read leaves an earlier index as it was", async (t) => {
  const line = project(t, searched);
  const file = join(line.folder, "docs.json");
  writeFileSync(file, "earlier");
  writeFileSync(join(line.folder, "guide", "bad.md"), Buffer.from([0xff]));
  const { code, err } = await line.run(docs, "index", "--out", file);
  assert.equal(code, 1);
  assert.match(err.join("\n"), /bad\.md is not UTF-8 text/);
  assert.deepEqual(readdirSync(line.folder).toSorted(), ["docs.json", "guide", "pipeline.yaml"]);
});

test("a folder that is missing, or no place to write to, is one clear line", async (t) => {
  const line = project(t, searched.replace("./guide", "./gone"));
  const missing = await line.run(docs, "index", "--out", join(line.folder, "x.json"));
  assert.equal(missing.code, 1);
  assert.match(missing.err.join("\n"), /gone cannot be read: ENOENT/);
  const other = project(t, searched);
  const nowhere = await other.run(docs, "index", "--out", join(other.folder, "no", "x.json"));
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.err.join("\n"), /ENOENT/);
});
