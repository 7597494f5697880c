/** Reloads of code while a request is in flight: it finishes with the code that it began with, and others get the new code. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";

const pipeline = `
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

const page = `export default {
  kind: "surface", name: "page", description: "x", start: () => ({ answer: () => ({ status: 200 }) }),
};`;

/** The sizes differ, so that a change within one tick of the file system's clock is also noticed. */
let padding = 0;
function save(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), `${text}\n// ${"x".repeat(++padding)}\n`);
  }
}

async function start(t: TestContext): Promise<TestGateway> {
  const gateway = await startTestGateway({
    pipeline,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      writeFileSync(join(folder, "page.js"), page);
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
    const gateway = await start(t);
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
  const gateway = await start(t);
  const work = async (): Promise<string> => (await fetch(`${gateway.url}/work`)).text();
  assert.equal(await work(), "a,old,old");
  const { "work.js": _, ...job } = jobFiles("new");
  save(gateway.folder, job);
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await work(), "a,new,new");
});
