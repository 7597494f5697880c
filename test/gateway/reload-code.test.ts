/** A reload loads the current code of local plugins, and logs which changes only a restart can load. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";

const pipeline = (plugins: string): string => `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { ${plugins} }
routes:
  - { path: /one, to: one }
  - { path: /two, to: two }
`;

const surface = (name: string, head: string, answer: string): string => `${head}
export default {
  kind: "surface", name: "${name}", description: "x",
  start: () => ({ answer: () => ({ status: 200, body: String(${answer}) }) }),
};
`;

/** The sizes differ, so that a change within one tick of the file system's clock is also noticed. */
let padding = 0;
function write(file: string, text: string): void {
  writeFileSync(file, `${text}\n// ${"x".repeat(++padding)}\n`);
}

interface Project extends TestGateway {
  save(name: string, text: string): void;
  says(path: string): Promise<string>;
  reload(): Promise<string[]>;
}

async function start(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  { plugins = "one: ./one.js, two: ./two.js", watch = false, manifest = "", links = {} } = {},
): Promise<Project> {
  const gateway = await startTestGateway({
    pipeline: pipeline(plugins),
    watch,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      for (const [name, text] of Object.entries(files)) {
        mkdirSync(join(folder, name, ".."), { recursive: true });
        write(join(folder, name), text);
      }
      for (const [name, target] of Object.entries(links)) {
        symlinkSync(join(folder, String(target)), join(folder, name), "dir");
      }
      if (manifest !== "")
        writeFileSync(join(folder, "node_modules/acme-two/package.json"), manifest);
    },
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  return Object.assign(gateway, {
    save: (name: string, text: string) => write(join(gateway.folder, name), text),
    says: async (path: string) => (await fetch(gateway.url + path)).text(),
    reload: async () =>
      (await gateway.gateway.reloader.reload("test")).map(({ message }) => message),
  });
}

const lastReload = ({ lines }: TestGateway): string =>
  lines.findLast((line) => line.startsWith("pipeline reloaded")) ?? "";

const helper = (text: string): string => `export const text = "${text}";\n`;
const counter = "let count = 0;\nexport const next = () => ++count;\n";

test("a changed plugin runs after a reload, and the log names it", async (t) => {
  const project = await start(t, {
    "one.js": surface("one", "", '"old"'),
    "two.js": surface("two", "", '"same"'),
  });
  assert.equal(await project.says("/one"), "old");
  project.save("one.js", surface("one", "", '"new"'));
  assert.deepEqual(await project.reload(), []);
  assert.deepEqual([await project.says("/one"), await project.says("/two")], ["new", "same"]);
  assert.match(lastReload(project), /new code of plugins .*"plugins":\["one"\]/);
  assert.deepEqual(await project.reload(), []);
  assert.doesNotMatch(lastReload(project), /plugins/);
});

test("a changed module reloads the modules that import it, and no others, whose state is kept", async (t) => {
  const project = await start(t, {
    "lib/text.js": helper("old"),
    "lib/counter.js": counter,
    "lib/between.js": 'export { text } from "./text.js";',
    "one.js": surface(
      "one",
      'import { text } from "./lib/between.js"; import { next } from "./lib/counter.js";',
      "text + next()",
    ),
    "two.js": surface("two", 'import { next } from "./lib/counter.js";', "next()"),
  });
  assert.deepEqual([await project.says("/one"), await project.says("/two")], ["old1", "2"]);
  project.save("lib/text.js", helper("new"));
  assert.deepEqual(await project.reload(), []);
  assert.match(lastReload(project), /"plugins":\["one"\]/);
  assert.deepEqual([await project.says("/one"), await project.says("/two")], ["new3", "4"]);
  project.save("lib/counter.js", counter);
  assert.deepEqual(await project.reload(), []);
  assert.match(lastReload(project), /"plugins":\["one","two"\]/);
  // Both import the same new module.
  assert.deepEqual([await project.says("/one"), await project.says("/two")], ["new1", "2"]);
});

test("a plugin that a change has broken is refused with its position, and loads once it is repaired", async (t) => {
  const project = await start(t, {
    "one.js": surface("one", "", '"old"'),
    "two.js": surface("two", "", '"same"'),
  });
  project.save("one.js", "const a = 1;\nexport default { a: ; };");
  const [message = ""] = await project.reload();
  assert.match(
    message,
    /^plugin "one" could not be loaded: \/.*one\.js:2:21: Unexpected token ';'$/,
  );
  assert.equal(await project.says("/one"), "old");
  // The imported file appears later. The plugin's own file does not change after this.
  project.save("one.js", surface("one", 'import { text } from "./late.js";', "text"));
  assert.match((await project.reload()).join(), /late\.js/);
  project.save("late.js", helper("new"));
  assert.deepEqual(await project.reload(), []);
  assert.equal(await project.says("/one"), "new");
});

test("changes that only a restart can load are logged: CommonJS, and packages of another version", async (t) => {
  const manifest = (version: string): string =>
    `{ "name": "acme-two", "version": "${version}", "type": "module", "exports": "./two.js" }`;
  const files = {
    "common.cjs": 'module.exports = "old";',
    "one.js": surface("one", 'import common from "./common.cjs";', "common"),
    "node_modules/acme-two/two.js": surface("two", "", '"package"'),
  };
  const project = await start(t, files, {
    plugins: "one: ./one.js, two: acme-two",
    manifest: manifest("1.0.0"),
  });
  const warnings = (): string[] =>
    project.lines.filter((line) => line.includes("restart to load it"));
  await project.reload();
  assert.deepEqual(warnings(), []);
  project.save("common.cjs", 'module.exports = "new";');
  writeFileSync(join(project.folder, "node_modules/acme-two/package.json"), manifest("1.0.1"));
  assert.deepEqual(await project.reload(), []);
  const [commonJs = "", packaged = ""] = warnings();
  assert.match(commonJs, /the CommonJS module .*common\.cjs has changed/);
  assert.match(packaged, /two\.js has version 1\.0\.1 on disk, but version 1\.0\.0 is running/);
  assert.equal(await project.says("/one"), "old");
});

test("a plugin in a linked folder is reloaded, and so are the modules that it imports", async (t) => {
  const files = {
    "real/text.js": helper("old"),
    "real/one.js": surface("one", 'import { text } from "./text.js";', "text"),
    "two.js": surface("two", "", '"same"'),
  };
  const project = await start(t, files, {
    plugins: "one: ./linked/one.js, two: ./two.js",
    links: { linked: "real" },
  });
  assert.equal(await project.says("/one"), "old");
  project.save("real/text.js", helper("new"));
  assert.deepEqual(await project.reload(), []);
  assert.equal(await project.says("/one"), "new");
});

test("saving the code of a plugin reloads it where the gateway is strict and watches", async (t) => {
  const files = {
    "lib/text.js": helper("old"),
    "one.js": surface("one", 'import { text } from "./lib/text.js";', "text"),
    "two.js": surface("two", "", '"same"'),
  };
  const project = await start(t, files, { watch: true });
  project.save("lib/text.js", helper("new"));
  while (lastReload(project) === "") await new Promise(setImmediate);
  assert.match(lastReload(project), /"reason":"plugin code"/);
  assert.equal(await project.says("/one"), "new");
});
