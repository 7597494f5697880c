/**
 * Checks every page, the README of every plugin and the notes: links lead somewhere, commands and YAML work, tables agree
 * with the code, and the guides in docs/deploy name files, values of the chart and variables that exist.
 */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { parseArgs } from "node:util";
import GithubSlugger from "github-slugger";
import { parse } from "yaml";
import type { Command, CommandContext } from "../../src/commands/command.ts";
import { checkParsed } from "../../src/pipeline/load/check-file.ts";
import { parseConfig } from "../../src/config/parse-config.ts";
import { shippedServices } from "../../src/pipeline/load/modules.ts";
import { loadShipped, shippedPlugins } from "../../src/pipeline/load/load.ts";
import type { Plugin } from "../../src/plugin.ts";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { root, findTable, renderTables } from "./tables.ts";

const pages = globSync(["*.md", "docs/**/*.md", "plugins/**/README.md", "bench/README.md"], {
  cwd: root,
}).toSorted();

const notes = globSync("{bench,plugins,src}/**/notes.md", { cwd: root }).toSorted();

function read(page: string): string {
  return readFileSync(join(root, page), "utf8");
}

interface Block {
  readonly language: string;
  readonly text: string;
}

function blocks(markdown: string): Block[] {
  const fence = /^( *)```(\w*)\n([^]*?)^\1```$/gm;
  return [...markdown.matchAll(fence)].map(([, indent = "", language = "", text = ""]) => {
    return { language, text: text.replaceAll(new RegExp(`^${indent}`, "gm"), "") };
  });
}

function anchors(markdown: string): Set<string> {
  const slugger = new GithubSlugger();
  const prose = markdown.replace(/^ *```[^]*?^ *```$/gm, "");
  const headings = [...prose.matchAll(/^#+ (.*)$/gm)];
  return new Set(headings.map(([, heading = ""]) => slugger.slug(heading.replaceAll("`", ""))));
}

test("there are laboratory notes", () => {
  assert.ok(notes.length > 0);
});

for (const page of [...pages, ...notes]) {
  test(`links of ${page} lead somewhere`, () => {
    const prose = read(page).replace(/^ *```[^]*?^ *```$/gm, "");
    for (const [, link = ""] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? page : join(dirname(page), path);
      assert.ok(existsSync(join(root, target)), `${link}: there is no ${target}`);
      if (anchor !== undefined) assert.ok(anchors(read(target)).has(anchor), `${link}: no heading`);
    }
  });
}

for (const page of pages) {
  test(`YAML and JSON of ${page} can be parsed`, () => {
    for (const { language, text } of blocks(read(page))) {
      if (language === "yaml") assert.doesNotThrow(() => void parse(text), text);
      if (language === "json") assert.doesNotThrow(() => void JSON.parse(text), text);
    }
  });
}

const complete = pages.flatMap((page) =>
  blocks(read(page))
    .filter(({ language, text }) => language === "yaml" && text.startsWith("version: 1"))
    .filter(({ text }) => !text.includes("plugins:"))
    .map(({ text }) => ({ page, text })),
);

const services = await shippedServices();

test("the pages contain complete pipelines", () => {
  assert.ok(complete.length > 0);
});

for (const { page, text } of complete) {
  test(`a complete pipeline of ${page} has no fault`, async () => {
    const { faults } = await checkParsed(
      parseConfig(text, join(root, "docs/pipeline.yaml"), {}, services),
    );
    assert.deepEqual(faults, []);
  });
}

const kindOfHeading: Readonly<Record<string, string>> = {
  Steps: "step",
  Surfaces: "surface",
  Tools: "tools",
  Services: "service",
};

test("plugins/README.md lists every plugin with its kind and its slots", async () => {
  const { plugins } = await loadShipped();
  const sections = read("plugins/README.md").split("\n## ").slice(1);
  const listed = sections.flatMap((section) => {
    const kind = kindOfHeading[section.split("\n")[0] ?? ""] ?? "";
    return [...section.matchAll(/^\| \[([\w-]+)\].*$/gm)].map(([row, name = ""]) => {
      const [, , , slots = ""] = row.split("|").map((cell) => cell.trim());
      return { name, kind, slots };
    });
  });
  // The gateway itself provides the service `upstreams`.
  const shipped = [...plugins.values()].filter(({ name }) => name !== "upstreams");
  const expected = shipped.map((plugin) => ({
    name: plugin.name,
    kind: plugin.kind,
    slots: slotsOf(plugin),
  }));
  const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);
  assert.deepEqual(listed.toSorted(byName), expected.toSorted(byName));
});

test("the README of every plugin names all of its options", async () => {
  const { plugins } = await loadShipped();
  const files = shippedPlugins();
  for (const { name, options } of plugins.values()) {
    const folder = dirname(files.get(name)?.file ?? join(root, "plugins/README.md"));
    const own = join(folder, "README.md");
    const page = existsSync(own) ? own : join(dirname(folder), "README.md");
    const text = readFileSync(page, "utf8");
    for (const option of Object.keys(options?.["properties"] ?? {})) {
      assert.match(text, new RegExp(`\\b${option}\\b`), `${page}: option ${option} of ${name}`);
    }
  }
});

/** ``provides `a`, needs `b`, `c` ``, as in the table. */
function slotsOf({ provides, needs, wants }: Plugin): string {
  return Object.entries({ provides, needs, wants })
    .map(([word, slots]) => ({
      word,
      names: Object.keys(slots ?? {}).map((name) => `\`${name}\``),
    }))
    .filter(({ names }) => names.length > 0)
    .map(({ word, names }) => `${word} ${names.join(", ")}`)
    .join(", ");
}

const commands: Readonly<Record<string, () => Promise<Command>>> = {
  init: async () => (await import("../../src/commands/init.ts")).init,
  start: async () => (await import("../../src/commands/start.ts")).start,
  check: async () => (await import("../../src/commands/check.ts")).check,
  keys: async () => (await import("../../plugins/billing/commands/keys.ts")).keys,
  workspaces: async () => (await import("../../plugins/billing/commands/workspaces.ts")).workspaces,
  audit: async () => (await import("../../plugins/billing/commands/audit.ts")).audit,
  explain: async () => (await import("../../src/commands/explain.ts")).explain,
  plugin: async () => (await import("../../src/commands/plugin/plugin.ts")).plugin,
  store: async () => (await import("../../src/commands/store.ts")).storeCommand(),
  usage: async () => (await import("../../plugins/billing/commands/usage.ts")).usage,
  verify: async () => (await import("../../plugins/confidential/commands/verify.ts")).verify,
  policy: async () => (await import("../../plugins/confidential/commands/policy.ts")).policy,
  worker: async () => (await import("../../plugins/confidential/commands/worker.ts")).worker,
};

test("every column of the usage export is listed in docs/credit-and-metering.md", async () => {
  const pipeline = `version: 1
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
routes: [{ path: /, to: discovery }]
`;
  await using gateway = await startTestGateway({ pipeline });
  const usage = await commands["usage"]?.();
  const printed: string[] = [];
  const context: CommandContext = {
    env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(gateway.folder, "data") },
    print: (line) => void printed.push(line),
    printToStderr: (line) => assert.fail(line),
    configFile: join(gateway.folder, "pipeline.yaml"),
    signal: new AbortController().signal,
    json: false,
  };
  assert.equal(await usage?.run(context, { format: "csv" }, ["export"]), 0);
  const columns = printed[0]?.trim().split(",") ?? [];
  assert.ok(columns.length > 5);
  const section = read("docs/credit-and-metering.md").split("## Usage export")[1] ?? "";
  const missing = columns.filter((column) => !section.includes(`\`${column}\``));
  assert.deepEqual(missing, []);
});

const lines = pages.flatMap((page) =>
  blocks(read(page)).flatMap(({ text }) =>
    [...text.matchAll(/^ *(?:\w+=\S+ )*npx sluice (.*)$/gm)].map(([, line = ""]) => ({
      page,
      line,
    })),
  ),
);

test("the pages contain command lines", () => {
  assert.ok(lines.length > 5);
});

for (const { page, line } of lines) {
  test(`the command of ${page} has those options: ${line}`, async () => {
    const [name = "", ...args] = line.split(" ");
    const command = await commands[name]?.();
    assert.ok(command !== undefined, name);
    const common = {
      config: { type: "string" },
      "env-file": { type: "string" },
      json: { type: "boolean" },
    } as const;
    const options = { ...command.options, ...common };
    const { positionals } = parseArgs({ args, options, allowPositionals: true });
    const [action] = positionals;
    if (action === undefined || URL.canParse(action)) return;
    const help = typeof command.help === "string" ? command.help : await command.help();
    assert.match(help, new RegExp(`sluice ${name} ${action}\\b`));
  });
}

const hint = "run `node test/docs/write-tables.ts && npx oxfmt docs`";

/** Cells without the padding that the formatter adds. An escaped bar is part of its cell. */
function cells(line: string): string[] {
  return line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
}

for (const [name, { page, table }] of await renderTables()) {
  test(`the table "${name}" of docs/${page} agrees with the code`, () => {
    const text = readFileSync(join(root, "docs", page), "utf8");
    const written = findTable(text, name)?.lines.map(cells) ?? [];
    const [head, , ...rows] = written;
    assert.ok(table.length > 1);
    assert.deepEqual([head, ...rows], table, hint);
  });
}

const guides = globSync("docs/deploy/*.md", { cwd: root }).toSorted();

for (const guide of guides) {
  test(`the commands of ${guide} name files that exist`, () => {
    const shown = [...read(guide).matchAll(/^```\n([^]*?)^```$/gm)].map(([, text = ""]) => text);
    assert.ok(shown.length > 0);
    const text = shown.join("");
    // Files that the commands write, or that a mount brings.
    const written = new Set([...text.matchAll(/> (deploy\/\S+)/g)].map(([, file]) => file));
    for (const [file] of text.matchAll(/(?<=[ (])deploy\/[\w./-]+/g)) {
      assert.ok(written.has(file) || existsSync(join(root, file)), file);
    }
  });
}

test("the guide of the chart sets values that exist", () => {
  const values: unknown = parse(read("deploy/chart/values.yaml"));
  const guide = read("docs/deploy/kubernetes.md");
  const set = [...guide.matchAll(/--set(?:-file)? ([\w.]+)=/g)].map(([, name = ""]) => name);
  const named = [
    ...guide.matchAll(/`((?:httpRoute|ingress|tls|autoscaling|networkPolicy|metrics)\.[\w.]+)`/g),
  ].map(([, name = ""]) => name);
  assert.ok(set.length >= 3 && named.length >= 3);
  // Each variable is a member of `variables`.
  const known = set.map((name) => name.replace(/^variables\..*/, "variables"));
  for (const name of [
    ...known,
    ...named,
    "terminationGracePeriodSeconds",
    "durability",
    "env",
    "envFrom",
    "extraVolumes",
  ]) {
    let value: unknown = values;
    for (const part of name.split(".")) {
      assert.ok(typeof value === "object" && value !== null && part in value, name);
      value = (value as Record<string, unknown>)[part];
    }
  }
});
