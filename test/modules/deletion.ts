/** Deletes modules from a copy of the product: their folders, and their lines in pipeline.yaml and plugins/client.ts. */
import { cpSync, globSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { isMap, isScalar, isSeq, parseDocument, type Document, type YAMLMap } from "yaml";
import { loadShipped, shippedPlugins } from "../../src/pipeline/load/load.ts";
import type { Plugin, Service } from "../../src/plugin.ts";

const root = join(import.meta.dirname, "../..");
const copied = ["src", "plugins", "docs", "package.json", "pipeline.yaml", "tsconfig.json"];

/** `contracts` is not a module: it stays when a module is deleted. */
export const modules = globSync("plugins/*/", { cwd: root })
  .map((path) => relative("plugins", path).replace(/\/$/, ""))
  .filter((folder) => folder !== "contracts");

/** Copies the product to `folder`, which is empty. The build of the site is not part of the product. */
export function copyProduct(folder: string): void {
  const site = join(root, "docs/.vitepress");
  const filter = (path: string): boolean => path !== site && basename(path) !== "node_modules";
  for (const path of copied) {
    cpSync(join(root, path), join(folder, path), { recursive: true, filter });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
}

/** Deletes the code of modules. Their folders are put back when the result is disposed of. */
export function deleteCode(folder: string, deleted: readonly string[]): Disposable {
  const client = readFileSync(join(root, "plugins/client.ts"), "utf8").split("\n");
  const left = client.filter((line) => !deleted.some((module) => line.includes(`"./${module}/`)));
  writeFileSync(join(folder, "plugins/client.ts"), left.join("\n"));
  const moved = deleted.map((module) => [
    join(folder, "plugins", module),
    join(folder, `deleted-${module}`),
  ]);
  for (const [from = "", to = ""] of moved) renameSync(from, to);
  return {
    [Symbol.dispose]() {
      for (const [from = "", to = ""] of moved) renameSync(to, from);
    },
  };
}

/** Also removes the lines of the module in pipeline.yaml. */
export async function deleteModule(folder: string, module: string): Promise<Disposable> {
  const text = readFileSync(join(root, "pipeline.yaml"), "utf8");
  writeFileSync(join(folder, "pipeline.yaml"), await pipelineWithout(text, module));
  return deleteCode(folder, [module]);
}

/**
 * Returns sets of modules. For any two modules, a set contains the first and not the second. Each module is in all sets
 * but two, and no other module is in the same sets.
 */
export function separatingSets(): string[][] {
  let count = 2;
  while ((count * (count - 1)) / 2 < modules.length) count++;
  const pairs = Array.from({ length: count }, (_, second) =>
    Array.from({ length: second }, (__, first) => [first, second]),
  ).flat();
  return Array.from({ length: count }, (_, set) =>
    modules.filter((__, at) => pairs[at]?.includes(set) === false),
  );
}

/** Removes the lines of a module, and those that need what only this module provides. */
async function pipelineWithout(text: string, module: string): Promise<string> {
  const { plugins } = await loadShipped();
  const gone = dependents(plugins, module);
  const services = [...gone].flatMap((name) => {
    const plugin = plugins.get(name);
    return plugin?.kind === "service" ? [plugin] : [];
  });
  const document = parseDocument(text);
  for (const service of services) removeSections(document, service);
  for (const path of [["tools"], ["unmatched"]]) removeUses(document.getIn(path), gone);
  const lists = document.get("lists");
  if (isMap(lists)) for (const { value } of lists.items) removeUses(value, gone);
  const routes = document.get("routes");
  if (!isSeq(routes)) throw new Error("pipeline.yaml has no routes");
  for (const route of routes.items) if (isMap(route)) removeUses(route.get("run"), gone);
  routes.items = routes.items.filter(
    (route) => isMap(route) && !gone.has(nameOf(route.get("to", true))),
  );
  removeUnused(document);
  return String(document);
}

/** The plugins of a module, and every plugin that needs a service or a slot that only these provide. */
function dependents(plugins: ReadonlyMap<string, Plugin>, module: string): Set<string> {
  const files = shippedPlugins();
  const gone = new Set(
    [...plugins.keys()].filter((name) => files.get(name)?.file.includes(`/plugins/${module}/`)),
  );
  const slotsOf = (isGone: boolean): Set<string> =>
    new Set(
      [...plugins.values()]
        .filter(({ name }) => gone.has(name) === isGone)
        .flatMap(({ provides = {} }) => Object.keys(provides)),
    );
  for (let before = -1; before !== gone.size;) {
    before = gone.size;
    const [lost, left] = [slotsOf(true), slotsOf(false)];
    for (const { name, uses = [], needs = {} } of plugins.values()) {
      const lacksSlot = Object.keys(needs).some((slot) => lost.has(slot) && !left.has(slot));
      if (lacksSlot || uses.some((service) => gone.has(service))) gone.add(name);
    }
  }
  return gone;
}

function removeSections(
  document: Document,
  { sections = {}, extends: extended = {} }: Service<never>,
): void {
  for (const section of Object.keys(sections)) document.delete(section);
  for (const [section, members] of Object.entries(extended)) {
    const entries = document.get(section);
    if (!isMap(entries)) continue;
    entries.items = entries.items.filter(({ value }) => !hasValueOf(value, members));
    for (const { value } of entries.items) {
      if (isMap(value))
        for (const member of Object.keys(members)) removeMember(value, member, members);
    }
  }
}

/** An entry that has a value which only the module allows, such as `kind: enclave`, is a line of the module. */
function hasValueOf(entry: unknown, members: Record<string, unknown>): boolean {
  return Object.entries(members).some(([name, schema]) => {
    const values = enumOf(schema);
    return isMap(entry) && values !== undefined && values.includes(entry.get(name));
  });
}

function removeMember(entry: YAMLMap, name: string, members: Record<string, unknown>): void {
  if (enumOf(members[name]) === undefined) entry.delete(name);
}

function enumOf(schema: unknown): readonly unknown[] | undefined {
  const isEnum = typeof schema === "object" && schema !== null && "enum" in schema;
  return isEnum && Array.isArray(schema.enum) ? schema.enum : undefined;
}

function removeUses(list: unknown, gone: ReadonlySet<string>): void {
  if (isSeq(list)) list.items = list.items.filter((item) => !gone.has(nameOf(item)));
}

/** The plugin that `name` or `{ name: options }` uses. */
function nameOf(use: unknown): string {
  if (isScalar(use)) return String(use.value);
  const key = isMap(use) ? use.items[0]?.key : undefined;
  return isScalar(key) ? String(key.value) : "";
}

/** A list or an upstream that nothing uses any more is a fault. */
function removeUnused(document: Document): void {
  const text = (...sections: string[]): string =>
    JSON.stringify(sections.map((section) => document.get(section)));
  removeEntries(document, "lists", (name) => text("routes", "lists").includes(`"use":"${name}"`));
  removeEntries(document, "upstreams", (name) =>
    text("routes", "tools", "lists").includes(`"upstream":"${name}"`),
  );
}

function removeEntries(
  document: Document,
  section: string,
  isUsed: (name: string) => boolean,
): void {
  const entries = document.get(section);
  if (!isMap(entries)) return;
  // A list can be used only by another list.
  for (let before = -1; before !== entries.items.length;) {
    before = entries.items.length;
    entries.items = entries.items.filter(({ key }) => isUsed(String(key)));
  }
  if (entries.items.length === 0) document.delete(section);
}
