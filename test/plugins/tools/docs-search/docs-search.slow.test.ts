/** The tool `docs_search` and the pages that it offers, with folders of Markdown files. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Resource, ToolOutcome } from "sluice-gateway/services";
import {
  maxFileBytes,
  type FolderOption,
  type Sources,
} from "../../../../plugins/tools/docs-search/folders.ts";
import docsSearch from "../../../../plugins/tools/docs-search/index.ts";
import { startTestGateway, testTools } from "../../../../plugins/contracts/testing.ts";
import { StartError } from "../../../../src/start-error.ts";
import { temporaryFolder } from "../../../store/folder.ts";

type Files = Readonly<Record<string, string | Buffer>>;

function folderOf(t: TestContext, files: Files): string {
  const folder = temporaryFolder(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

function optionsFor(folder: string, more: Partial<FolderOption> = {}): Sources {
  const named = { path: folder, url: "https://docs.test/guide/", suffix: ".md", ...more };
  return { own: false, folders: [named] };
}

interface Started {
  readonly call: (input: unknown) => Promise<ToolOutcome>;
  readonly resources: readonly Resource[];
}

async function start(options: Sources): Promise<Started & AsyncDisposable> {
  const tested = await testTools(docsSearch, { options });
  return {
    call: (input) => tested.call("docs_search", input, { capabilities: ["docs:read"] }),
    resources: tested.catalogue.resources,
    [Symbol.asyncDispose]: () => tested[Symbol.asyncDispose](),
  };
}

interface Hit {
  readonly title: string;
  readonly url: string;
  readonly text: string;
  readonly score: number;
}

async function hits(options: Sources, query: string): Promise<readonly Hit[]> {
  await using tested = await start(options);
  const outcome = await tested.call({ query });
  assert.ok(outcome.ok);
  // decisions.md section 6.
  return JSON.parse(outcome.json) as Hit[];
}

test("a search returns paragraphs with title, url, text and score, and costs 100 milli-CU", async (t) => {
  const folder = folderOf(t, {
    "a b/probing.md": "# Probing\n\n## Lag\n\nA node that lags is left out.\n",
  });
  await using tested = await start(optionsFor(folder));
  const outcome = await tested.call({ query: "lagging node lag" });
  assert.ok(outcome.ok);
  assert.equal(outcome.usedCUMilli, 100);
  const [hit, ...others] = JSON.parse(outcome.json) as Hit[];
  assert.deepEqual(others, []);
  assert.ok(hit !== undefined && hit.score > 0);
  assert.deepEqual(
    { ...hit, score: 0 },
    {
      title: "Probing: Lag",
      url: "https://docs.test/guide/a%20b/probing.md#lag",
      text: "A node that lags is left out.",
      score: 0,
    },
  );
  assert.deepEqual(outcome.links, [
    { uri: hit.url, name: "Probing: Lag", mimeType: "text/markdown" },
  ]);
});

test("Markdown files in subfolders are indexed; hidden files, node_modules, links and other types are not", async (t) => {
  const folder = folderOf(t, {
    "a.md": "unicorn one",
    "deep/er/B.MARKDOWN": "unicorn two",
    ".hidden/c.md": "unicorn",
    "node_modules/x/d.md": "unicorn",
    ".e.md": "unicorn",
    "f.txt": "unicorn",
  });
  symlinkSync(join(folder, "f.txt"), join(folder, "g.md"));
  const urls = (await hits(optionsFor(folder), "unicorn")).map(({ url }) => url);
  assert.deepEqual(urls, ["https://docs.test/guide/a.md", "https://docs.test/guide/deep/er/B.md"]);
});

test("each page is a resource with its text as written", async (t) => {
  const folder = folderOf(t, { "a.md": "---\nx: 1\n---\n# Title\n", "sub/README.md": "text" });
  await using tested = await start(optionsFor(folder));
  const { resources } = tested;
  assert.deepEqual(
    resources.map(({ uri, name, mimeType, bytes, capability }) => {
      return { uri, name, mimeType, bytes, capability };
    }),
    [
      {
        uri: "https://docs.test/guide/a.md",
        name: "Title",
        mimeType: "text/markdown",
        bytes: 21,
        capability: "docs:read",
      },
      {
        uri: "https://docs.test/guide/sub/README.md",
        name: "sub",
        mimeType: "text/markdown",
        bytes: 4,
        capability: "docs:read",
      },
    ],
  );
  assert.equal(await resources[0]?.read(), "---\nx: 1\n---\n# Title\n");
});

for (const [name, content, says] of [
  ["Latin-1", Buffer.from("Pr\xfcfung", "latin1"), /bad\.md is not UTF-8 text/],
  ["UTF-16", Buffer.from("text", "utf16le"), /bad\.md is not UTF-8 text/],
  ["too large", Buffer.alloc(maxFileBytes + 1, "a"), /bad\.md has 1048577 bytes; the maximum is/],
  ["nested too deep", ">".repeat(100_000), /bad\.md cannot be parsed/],
] as const) {
  test(`the error names a file that cannot be indexed: ${name}`, async (t) => {
    const folder = folderOf(t, { "good.md": "text", "sub/bad.md": content });
    await assert.rejects(async () => start(optionsFor(folder)), says);
  });
}

const pipeline = (options: string): string => `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
upstreams: { x: { urls: "http://127.0.0.1:9" } }
tools:
  - docs-search: ${options}
routes:
  - { path: /x, methods: [GET], to: { forward: { upstream: x } } }
`;

async function faultsOf(options: string): Promise<(string | number | undefined)[][]> {
  try {
    await using _gateway = await startTestGateway({ pipeline: pipeline(options) });
  } catch (error) {
    assert.ok(error instanceof StartError);
    return error.faults.map(({ code, message, at }) => [code, message, at?.line, at?.col]);
  }
  return [];
}

for (const [options, fault] of [
  [
    "{ folders: [{ path: ./missing, url: 'https://docs.test' }] }",
    ["SLUICE_OPTION_INVALID", "the folder ./missing does not exist", 8, 38],
  ],
  [
    "{ folders: [{ path: ./pipeline.yaml, url: 'https://docs.test' }] }",
    ["SLUICE_OPTION_INVALID", "./pipeline.yaml is not a folder", 8, 38],
  ],
  [
    "{ folders: [{ path: ., url: '/relative' }] }",
    ["SLUICE_OPTION_INVALID", "expected an absolute URL without a query and a fragment", 8, 46],
  ],
] as const) {
  test(`check reports the position of a fault: ${options}`, async () => {
    assert.deepEqual(await faultsOf(options), [fault]);
  });
}

test("the shipped documentation is indexed: every page and the README of every plugin", async () => {
  const options: Sources = { own: true, folders: [] };
  await using tested = await start(options);
  const uris = tested.resources.map(({ uri }) => uri);
  assert.ok(uris.includes("docs://sluice/docs/operations.md"));
  assert.ok(uris.includes("docs://sluice/plugins/tools/docs-search/README.md"));
  assert.ok(uris.includes("docs://sluice/plugins/README.md"));
  const [hit] = await hits(options, "price of state_getStorage");
  assert.match(hit?.text ?? "", /state_getStorage/);
});
