/** Plugins whose tools change while the gateway runs: in the catalogue, and on every surface. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { ToolsHooks } from "sluice-gateway/plugin";
import type { Tool } from "sluice-gateway/services";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";
import { startCatalogue, tool } from "./fixture.ts";

const named = (name: string, more: Partial<Tool<never>> = {}): Tool<never> =>
  tool({ ...more, name });

function changing(...first: Tool<never>[]): { tools: Tool<never>[] } {
  return { tools: first };
}

/** Returns hooks whose member `tools` is read again for each access. */
function getter(from: (() => Tool<never>[]) | { readonly tools: Tool<never>[] }): ToolsHooks {
  return {
    get tools() {
      return typeof from === "function" ? from() : from.tools;
    },
  };
}

describe("the catalogue", () => {
  it("finds a tool that was added to the same array", async () => {
    const tools = [named("a")];
    const { catalogue, call } = await startCatalogue({ acme: { tools } });
    tools.push(named("b"));
    assert.equal((await call("b", {})).ok, true);
    tools.length = 0;
    assert.deepEqual(catalogue.list, []);
  });

  it("gives a name that became free to the plugin that was refused because of it", async () => {
    const from = (plugin: string): Tool<never>["call"] => {
      return () => ({ ok: true, value: plugin });
    };
    const first = changing(named("shared", { call: from("first") }));
    const second = changing(named("shared", { call: from("second") }), named("other"));
    const { catalogue, call, warnings, problems } = await startCatalogue({
      first: getter(first),
      second: getter(second),
    });
    assert.deepEqual(problems, ['tool "shared" already exists']);
    const caller = async (): Promise<unknown> => {
      const outcome = await call("shared", {});
      return outcome.ok ? JSON.parse(outcome.json) : outcome.code;
    };
    const names = (): string => catalogue.list.map(({ name }) => name).join();
    assert.deepEqual([await caller(), names()], ["first", "shared,other"]);

    const withName = first.tools;
    first.tools = [];
    assert.deepEqual([await caller(), names()], ["second", "shared,other"]);
    assert.deepEqual(warnings, []);

    // The first plugin in the order of the file gets its name back. The problem of the other one is logged once.
    first.tools = withName;
    assert.deepEqual([await caller(), names()], ["first", "shared,other"]);
    second.tools = [...second.tools, named("more")];
    assert.equal(names(), "shared,other,more");
    assert.deepEqual(warnings, [
      'a tool was skipped {"plugin":"second","problem":"tool \\"shared\\" already exists"}',
    ]);

    // Two plugins exchange their names in one step.
    first.tools = [named("other", { call: from("first") })];
    second.tools = [named("shared", { call: from("second") })];
    assert.deepEqual([await caller(), names()], ["second", "other,shared"]);
  });

  it("is the same as a catalogue of the present lists, whatever has changed before", async () => {
    const made = ["a", "b", "c", "d"].map((name) => [0, 1, 2].map(() => named(name)));
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return Math.floor((seed / 2 ** 31) * below);
    };
    const plugins = [changing(), changing(), changing()];
    const { catalogue } = await startCatalogue(
      Object.fromEntries(plugins.map((plugin, n) => [n, getter(plugin)])),
    );
    for (let round = 0; round < 200; round++) {
      const index = random(plugins.length);
      const plugin = plugins[index];
      assert(plugin !== undefined);
      plugin.tools = made.flatMap((same) => (random(2) === 0 ? [] : (same[index] ?? [])));
      const again = await startCatalogue(Object.fromEntries(plugins.entries()));
      assert.deepEqual(catalogue.list, again.catalogue.list);
    }
  });

  it("warns once of a plugin that makes new tools for each read, and does not compile them again", async () => {
    let reads = 0;
    const schema = (type: string): object => ({ type: "object", properties: { to: { type } } });
    let type = "string";
    const acme = getter(() => {
      const read = ++reads;
      const answer = (): { ok: true; value: number } => ({ ok: true, value: read });
      return [
        named("a", { inputSchema: schema(type) as never, call: answer }),
        named("b", { price: -1 }),
      ];
    });
    const { catalogue, call, warnings } = await startCatalogue({ acme });
    const { list } = catalogue;
    assert.equal(list.length, 1);
    for (let i = 0; i < 3; i++) {
      const outcome = await call("a", { to: "me" });
      assert.equal(outcome.ok && outcome.json, String(reads), "the newest object is called");
      // The surfaces compute what they serve for each new array.
      assert.equal(catalogue.list, list);
    }
    assert.equal(warnings.length, 1);
    assert.match(warnings[0] ?? "", /returns new tool objects .*"plugin":"acme"/);

    type = "integer";
    assert.equal((await call("a", { to: "me" })).ok, false);
    assert.equal((await call("a", { to: 1 })).ok, true);
    assert.notEqual(catalogue.list, list);
    assert.equal(warnings.length, 1);
  });

  it("reports a plugin whose tools cannot be read at the start, and keeps the others", async () => {
    const { catalogue, call, problems } = await startCatalogue({
      good: { tools: [named("a")] },
      broken: getter(() => {
        throw new Error("no tools now");
      }),
      // A plugin in JavaScript can return anything.
      without: { tools: undefined as never },
      hole: { tools: [named("b"), null as never] },
    });
    const reasons = ["no tools now", "`tools` is not an array", "`tools[1]` is not an object"];
    assert.deepEqual(
      problems,
      reasons.map((reason) => `its tools cannot be read: ${reason}`),
    );
    assert.equal((await call("a", {})).ok, true);
    assert.equal(catalogue.list.length, 1);
  });

  it("keeps the last tools of a plugin that fails, and logs each reason once", async () => {
    const first = [named("a")];
    let next = (): Tool<never>[] => first;
    const acme = getter(() => next());
    const { catalogue, call, errors } = await startCatalogue({ acme });
    next = () => {
      throw new Error("no tools now");
    };
    for (let i = 0; i < 3; i++) assert.equal((await call("a", {})).ok, true);
    assert.equal(errors.length, 1);
    next = () => null as never;
    for (let i = 0; i < 3; i++) assert.equal((await call("a", {})).ok, true);
    assert.equal(errors.length, 2);
    next = () => [];
    assert.deepEqual(catalogue.list, []);
  });

  it("skips an invalid tool and one with the name of another plugin's tool", async () => {
    const plugin = changing();
    const other = changing();
    const problems: string[] = [];
    const { catalogue, call, warnings } = await startCatalogue({
      first: { tools: [named("a")] },
      second: {
        get tools() {
          return plugin.tools;
        },
        onInvalid: (problem) => void problems.push(problem),
      },
      third: getter(other),
    });
    const malformed = named("c", { inputSchema: null as never });
    plugin.tools = [named("a"), named("b", { price: -1 }), malformed, named("good")];
    assert.deepEqual(
      catalogue.list.map(({ name }) => name),
      ["a", "good"],
    );
    assert.equal(problems.length, 3);
    assert.match(problems[2] ?? "", /tool "c" cannot be used/);
    assert.match(problems[0] ?? "", /tool "a" already exists/);
    assert.match(problems[1] ?? "", /tool "b" has a price/);
    assert.equal((await call("a", {})).ok, true);
    // Without `onInvalid`, the problem is logged once.
    other.tools = [named("good"), named("better")];
    assert.equal(catalogue.list.length, 3);
    assert.equal(catalogue.list.length, 3);
    assert.deepEqual(warnings, [
      'a tool was skipped {"plugin":"third","problem":"tool \\"good\\" already exists"}',
    ]);
  });
});

const plugin = `
const tool = (name, call) => ({
  name, call, description: name, inputSchema: { type: "object" }, price: 10, capability: undefined,
});
let tools = [];
const grow = () => {
  tools = [...tools, tool("acme_new" + tools.length, () => ({ ok: true, value: { grown: true } }))];
  return { ok: true, value: {} };
};
tools = [tool("acme_grow", grow)];
export default {
  kind: "tools",
  name: "growing",
  description: "Adds a tool with each call.",
  start: () => ({ get tools() { return tools; } }),
};
`;
const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plugins: { growing: ./growing.js }
tools: [growing]
lists:
  agents: [request-id, authenticate, authorize: { require: key }, meter]
routes:
  - { path: /rpc, methods: [POST], run: [{ use: agents }], to: tool-rpc }
  - { path: /mcp, methods: [POST], run: [{ use: agents }], to: mcp }
  - { path: /.well-known/mcp, methods: [GET], to: discovery }
`;

describe("the surfaces", () => {
  it("show and call the tools that a plugin has now, also after a reload", async () => {
    await using gateway = await startTestGateway({
      pipeline,
      prepare: (folder) => writeFileSync(join(folder, "growing.js"), plugin),
    });
    const post = async (path: string, body: object): Promise<string> => {
      const answer = await fetch(gateway.url + path, {
        method: "POST",
        headers: {
          authorization: `Bearer ${gateway.key}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...("_meta" in Object(Reflect.get(body, "params")) && {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/list",
          }),
        },
        body: JSON.stringify(body),
      });
      const text = await answer.text();
      assert.equal(answer.status, 200, text);
      return text;
    };
    const rpc = (method: string, params?: object): Promise<string> =>
      post("/rpc", { jsonrpc: "2.0", id: 1, method, ...(params && { params }) });
    const mcp = (params: object): Promise<string> =>
      post("/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list", params });
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const discovery = async (etag = ""): Promise<Response> =>
      fetch(`${gateway.url}/.well-known/mcp`, { headers: { "if-none-match": etag } });
    const shown = async (): Promise<string[]> => {
      const texts = [rpc("tools.list"), mcp({}), mcp({ _meta })];
      const all = await Promise.all([...texts, discovery().then((answer) => answer.text())]);
      return all.map((text) =>
        [...text.matchAll(/"name":"(acme_\w+)"/g)].map(([, name]) => name).join(),
      );
    };
    const everywhere = (names: string): string[] => [names, names, names, names];

    assert.deepEqual(await shown(), everywhere("acme_grow"));
    const etag = (await discovery()).headers.get("etag") ?? "";
    assert.equal((await discovery(etag)).status, 304);
    await rpc("tools.call", { tool: "acme_grow" });
    assert.deepEqual(await shown(), everywhere("acme_grow,acme_new1"));
    assert.equal((await discovery(etag)).status, 200);
    assert.match(await rpc("tools.call", { tool: "acme_new1" }), /"grown":true/);
    // Names of tools are recognized as methods, too.
    assert.match(await rpc("acme_new1"), /called through tools.call/);

    // A reload that changes the routes keeps the plugin, and its tools.
    await gateway.write(pipeline.replace("/.well-known/mcp", "/discovery"));
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    assert.match(await rpc("tools.list"), /acme_new1/);
    await rpc("tools.call", { tool: "acme_grow" });
    assert.match(await rpc("tools.list"), /acme_new2/);
    assert.match(await mcp({}), /acme_new2/);
  });
});
