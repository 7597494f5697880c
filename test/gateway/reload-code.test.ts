/**
 * A reload loads the current code of local plugins, and logs which changes only a restart can load. A request in flight
 * finishes with the code that it began with.
 */
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

const heldPipeline = `
version: 1
server: { port: "\${PORT}", drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { mark: ./mark.js, page: ./page.js, codes: ./codes.js, work: ./work.js }
tools: [codes]
routes:
  - { path: /page, run: [mark], to: page }
  - { path: /work, to: work }
  - { path: /rpc, methods: [POST], run: [authenticate, { authorize: { require: key } }, meter], to: tool-rpc }
`;

/** The member of globalThis that the plugins of these tests call in every request. They run in the process of the test. */
const hook = "sluiceTestHook";

/** Files whose code is `code`. A request imports late.js after it has called the hook. */
const filesOf = (code: string): Readonly<Record<string, string>> => ({
  "late.js": `export const late = "${code}";`,
  "lib.js": `export const lib = "${code}";`,
  "mark.js": `
    import { lib } from "./lib.js";
    export default {
      kind: "step", name: "mark", description: "x",
      start: () => ({
        createState: () => ({}),
        async requestHeaders(x, state) {
          await globalThis.${hook}?.();
          state.late = (await import("./late.js")).late;
        },
        responseHeaders: (x, head, state) => head.set("x-mark", ["${code}", lib, state.late].join()),
      }),
    };`,
  "codes.js": `
    import { lib } from "./lib.js";
    const code = {
      name: "acme_code", description: "x", price: 1, capability: undefined,
      inputSchema: { type: "object", properties: {}, additionalProperties: false },
      async call() {
        await globalThis.${hook}?.();
        const { late } = await import("./late.js");
        return { ok: true, value: { codes: ["${code}", lib, late].join() } };
      },
    };
    export default {
      kind: "tools", name: "codes", description: "x", start: () => ({ tools: [code] }),
    };`,
});

const jobFiles = (code: string): Readonly<Record<string, string>> => ({
  "work.js": `
    const module = import.meta.resolve("./job.js");
    export default {
      kind: "surface", name: "work", description: "x",
      start: (_, host) => ({
        async answer() {
          const done = await host.compute.run({ module, input: { text: "a" }, transfer: [] });
          return { status: 200, body: done.ok ? Buffer.from(done.bytes).toString() : done.reason };
        },
      }),
    };`,
  "job.js": `
    import { part } from "./part.js";
    export default ({ text }) => Buffer.from([text, "${code}", part].join());`,
  "part.js": `export const part = "${code}";`,
});

function save(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) write(join(folder, name), text);
}

async function startHeld(t: TestContext): Promise<TestGateway> {
  const gateway = await startTestGateway({
    pipeline: heldPipeline,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      writeFileSync(join(folder, "page.js"), surface("page", "", "1"));
      save(folder, { ...filesOf("old"), ...jobFiles("old") });
    },
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

/** Makes the next request wait for `release`. `entered` resolves when it waits. */
function holdNext(t: TestContext): {
  readonly entered: Promise<void>;
  readonly release: () => void;
} {
  const entered = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  t.after(() => released.resolve());
  Reflect.set(globalThis, hook, () => {
    Reflect.deleteProperty(globalThis, hook);
    entered.resolve();
    return released.promise;
  });
  return { entered: entered.promise, release: () => released.resolve() };
}

async function mark({ url }: TestGateway): Promise<string | null> {
  return (await fetch(`${url}/page`)).headers.get("x-mark");
}

async function codes({ url, key }: TestGateway): Promise<unknown> {
  const params = { tool: "acme_code", params: {} };
  const response = await fetch(`${url}/rpc`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools.call", params }),
  });
  return /"codes":"([^"]*)"/.exec(await response.text())?.[1];
}

for (const [kind, call] of [
  ["step", mark],
  ["tool", codes],
] as const) {
  test(`a request in a ${kind} keeps the old code across a reload, also in a late import`, async (t) => {
    const gateway = await startHeld(t);
    // Loads the first version of late.js.
    assert.equal(await call(gateway), "old,old,old");
    const { entered, release } = holdNext(t);
    const held = call(gateway);
    await entered;
    save(gateway.folder, filesOf("new"));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    assert.equal(await call(gateway), "new,new,new");
    release();
    assert.equal(await held, "old,old,old");
    assert.equal(await call(gateway), "new,new,new");
  });
}

test("a reload also loads a changed module of a job, and what that module imports", async (t) => {
  const gateway = await startHeld(t);
  const work = async (): Promise<string> => (await fetch(`${gateway.url}/work`)).text();
  assert.equal(await work(), "a,old,old");
  const { "work.js": _, ...job } = jobFiles("new");
  save(gateway.folder, job);
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await work(), "a,new,new");
});
