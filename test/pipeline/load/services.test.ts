/** Services in a running gateway: the order of starts and stops, reloads, and what a dry run starts. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { check } from "../../../src/commands/check.ts";
import type { CommandContext } from "../../../src/commands/command.ts";
import { StartError } from "../../../src/start-error.ts";
import { startTestGateway, type TestGateway } from "../../../plugins/contracts/testing.ts";

/** The plugins below append their events here. Each test has its own list. */
const journals = new Map<string, string[]>();
Object.assign(globalThis, { serviceJournals: journals });

/** A service that records its start and its stop, and whose state is its option `state`. */
const service = (name: string, uses: string, journal: string): string => `
const journal = globalThis.serviceJournals.get("${journal}");
export default {
  kind: "service",
  name: "${name}",
  description: "Records what happens to it.",
  uses: ${uses},
  options: {
    type: "object",
    properties: { state: { type: "string", default: "fine" } },
    additionalProperties: false,
  },
  start({ state }, host) {
    if (state === "broken") throw new Error("broken");
    const used = ${uses}.map((each) => host.use(each).text);
    journal.push("start ${name}");
    return {
      service: { text: ["${name} " + state, ...used].join() },
      stop: () => void journal.push("stop ${name}"),
    };
  },
};
`;

/** A surface that answers with a text. `uses`: a line of its manifest. `first`: what its start does first. */
const surface = (
  journal: string,
  text = "text",
  uses = 'uses: ["upper"]',
  first = 'const { text } = host.use("upper");',
): string => `
const journal = globalThis.serviceJournals.get("${journal}");
export default {
  kind: "surface",
  name: "page",
  description: "Answers with the text of a service.",
  ${uses},
  start(_, host) {
    ${first}
    journal.push("start page");
    return { answer: () => ({ status: 200, body: ${text} }), stop: () => void journal.push("stop page") };
  },
};
`;

const pipeline = (sections = "", server = "drainDelaySeconds: 0"): string => `version: 1
server: { port: "\${PORT}", ${server} }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: silent }
plugins: { page: ./page.js, upper: ./upper.js, lower: ./lower.js }
${sections}
routes:
  - { path: /, to: page }
`;

function prepare(t: TestContext): { journal: string[]; prepare: (folder: string) => void } {
  const journal: string[] = [];
  journals.set(t.name, journal);
  t.after(() => journals.delete(t.name));
  return {
    journal,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      writeFileSync(join(folder, "page.js"), surface(t.name));
      writeFileSync(join(folder, "upper.js"), service("upper", '["lower"]', t.name));
      writeFileSync(join(folder, "lower.js"), service("lower", "[]", t.name));
    },
  };
}

const textOf = async ({ url }: TestGateway): Promise<string> => (await fetch(url)).text();

test("a service starts before the plugins that use it and stops after them", async (t) => {
  const { journal, ...options } = prepare(t);
  const gateway = await startTestGateway({ pipeline: pipeline(), ...options });
  assert.equal(await textOf(gateway), "upper fine,lower fine");
  await gateway[Symbol.asyncDispose]();
  assert.deepEqual(journal, [
    "start lower",
    "start upper",
    "start page",
    "stop page",
    "stop upper",
    "stop lower",
  ]);
});

test("a reload replaces a service whose section has changed, and everything that uses it", async (t) => {
  const { journal, ...options } = prepare(t);
  await using gateway = await startTestGateway({ pipeline: pipeline(), ...options });
  journal.length = 0;
  await gateway.write(pipeline("lower: { state: tired }"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await textOf(gateway), "upper fine,lower tired");
  assert.deepEqual(journal.slice(0, 3), ["start lower", "start upper", "start page"]);
});

test("a plugin that first asks for its service after a reload gets the one that is running", async (t) => {
  const { journal, prepare: write } = prepare(t);
  await using gateway = await startTestGateway({
    pipeline: pipeline(),
    prepare(folder) {
      write(folder);
      // This one asks for the service only when it answers.
      const late = surface(t.name, 'host.use("upper").text', 'uses: ["upper"]', "");
      writeFileSync(join(folder, "page.js"), late);
    },
  });
  journal.length = 0;
  await gateway.write(pipeline("lists: {}"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.deepEqual(journal, []);
  await gateway.write(pipeline("lower: { state: tired }"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.equal(await textOf(gateway), "upper fine,lower tired");
});

test("a plugin gets a service that it uses if it is installed, and restarts when the service appears or changes", async (t) => {
  const { journal, prepare: write } = prepare(t);
  const installed = "page: ./page.js, lower: ./lower.js";
  const pipelineOf = (plugins: string, sections?: string): string =>
    pipeline(sections).replace("page: ./page.js, upper: ./upper.js, lower: ./lower.js", plugins);
  await using gateway = await startTestGateway({
    pipeline: pipelineOf("page: ./page.js"),
    prepare(folder) {
      write(folder);
      const prepareText =
        'const { text } = host.use("lower", { ifInstalled: true }) ?? { text: "nothing" };';
      const optional = surface(t.name, "text", 'usesIfInstalled: ["lower"]', prepareText);
      writeFileSync(join(folder, "page.js"), optional);
    },
  });
  const load = async (text: string): Promise<string> => {
    await gateway.write(text);
    assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
    return textOf(gateway);
  };
  assert.equal(await textOf(gateway), "nothing");
  assert.equal(await load(pipelineOf(installed)), "lower fine");
  assert.equal(await load(pipelineOf(installed, "lower: { state: tired }")), "lower tired");
  assert.deepEqual(
    journal.filter((line) => line.startsWith("start")),
    ["start page", "start lower", "start page", "start lower", "start page"],
  );
});

/** A plugin of kind `tools` that uses the service `lower`, and a pipeline in which `upper` uses the catalogue. */
function withTools(t: TestContext) {
  const { journal, prepare: prepareServices } = prepare(t);
  const tools = (text: string): string =>
    pipeline(`tools: [{ letters: { text: ${text} } }]`).replace(
      "plugins: {",
      "plugins: { letters: ./letters.js,",
    );
  return {
    journal,
    tools,
    prepare(folder: string): void {
      prepareServices(folder);
      writeFileSync(join(folder, "upper.js"), service("upper", '["tool-catalogue"]', t.name));
      writeFileSync(join(folder, "letters.js"), letters(t.name));
    },
  };
}

const letters = (journal: string): string => `
const journal = globalThis.serviceJournals.get("${journal}");
export default {
  kind: "tools",
  name: "letters",
  description: "Adds no tools.",
  uses: ["lower"],
  options: { type: "object", properties: { text: { type: "string" } }, additionalProperties: false },
  start(_, host) {
    host.use("lower");
    journal.push("start letters");
    return { tools: [] };
  },
};
`;

test("tools start after the services that they use and before the services that use the catalogue", async (t) => {
  const { journal, tools, ...options } = withTools(t);
  await using gateway = await startTestGateway({ pipeline: tools("a"), ...options });
  assert.deepEqual(journal, ["start lower", "start letters", "start upper", "start page"]);
  journal.length = 0;
  await gateway.write(`${tools("a")}lists: {}\n`);
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.deepEqual(journal, []);
  await gateway.write(tools("b"));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  assert.deepEqual(journal.slice(0, 3), ["start letters", "start upper", "start page"]);
});

test("a service that does not start is one fault, and the plugins that use it are not reported", async (t) => {
  const { journal, ...options } = prepare(t);
  const sections = "lower: { state: broken }";
  await assert.rejects(startTestGateway({ pipeline: pipeline(sections), ...options }), (error) => {
    assert.ok(error instanceof StartError);
    assert.deepEqual(
      error.faults.map(({ code, message, at }) => [code, message, at?.line]),
      [["SLUICE_PLUGIN_START", "lower did not start: broken", 7]],
    );
    return true;
  });
  assert.deepEqual(journal, []);
});

test("a check asks a service for its dry run instead of starting it", async (t) => {
  const { journal, prepare: write } = prepare(t);
  await using gateway = await startTestGateway({ pipeline: pipeline(), prepare: write });
  const { folder } = gateway;
  const code = service("lower", "[]", t.name).replace(
    "  start(",
    '  dryRun: () => ({ text: "dry" }),\n  start(',
  );
  writeFileSync(join(folder, "dry.js"), code);
  await gateway.write(pipeline().replace("./lower.js", "./dry.js"));
  journal.length = 0;
  const printed: string[] = [];
  const context: CommandContext = {
    env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") },
    print: (line) => void printed.push(line),
    printToStderr: (line) => void printed.push(line),
    configFile: join(folder, "pipeline.yaml"),
    signal: new AbortController().signal,
    json: false,
  };
  assert.equal(await check.run(context, {}, []), 0, printed.join("\n"));
  assert.deepEqual(journal, ["start upper", "start page", "stop page", "stop upper"]);
});
