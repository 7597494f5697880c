/** Tests of the parser that finds the plugin of a stack trace. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { pluginOfStack } from "../../../src/pipeline/load/plugin-of-stack.ts";

const modules = new Map([
  ["/app/node_modules/sluice-gateway/plugins/meter/index.ts", "meter"],
  ["/app/node_modules/sluice-gateway/plugins/chat/index.ts", "chat"],
  ["/app/node_modules/@acme/sluice-log/dist/index.js", "acme-log"],
  ["/app/plugins/one.ts", "one"],
  ["/app/plugins/two.ts", "two"],
  ["/app/own/index.ts", "own"],
]);

const stack = (...places: string[]): string =>
  ["Error: at /app/own/index.ts:1:1 it broke", ...places.map((place) => `    at ${place}`)].join(
    "\n",
  );

const cases: readonly [title: string, places: string[], plugin: string | undefined][] = [
  ["a plugin's module", ["tick (file:///app/plugins/two.ts:3:9)"], "two"],
  ["a frame without a function", ["file:///app/plugins/one.ts:3:9"], "one"],
  ["an awaited frame", ["async Object.start (file:///app/own/index.ts:3:9)"], "own"],
  ["a path instead of a URL", ["Timeout._onTimeout (/app/own/timer.js:3:9)"], "own"],
  ["a file below the folder", ["file:///app/own/lib/deep/x.ts:3:9"], "own"],
  ["a file beside two plugins", ["file:///app/plugins/shared.ts:3:9"], undefined],
  [
    "a file beside two plugins, called by one",
    ["file:///app/plugins/shared.ts:3:9", "file:///app/plugins/one.ts:7:1"],
    "one",
  ],
  [
    "a shipped plugin",
    ["f (file:///app/node_modules/sluice-gateway/plugins/chat/x.ts:3:9)"],
    "chat",
  ],
  [
    "another file of a package",
    ["f (file:///app/node_modules/@acme/sluice-log/lib/x.js:3:9)"],
    "acme-log",
  ],
  [
    "a library that a plugin has called",
    ["f (file:///app/own/node_modules/pg/index.js:1:1)", "file:///app/own/index.ts:2:2"],
    "own",
  ],
  [
    "the topmost of two plugins",
    ["file:///app/plugins/one.ts:3:9", "file:///app/plugins/two.ts:3:9"],
    "one",
  ],
  [
    "the core",
    ["f (file:///app/node_modules/sluice-gateway/src/pipeline/run/run.ts:3:9)"],
    undefined,
  ],
  [
    "Node and an unknown file",
    ["node:internal/timers:605:17", "file:///elsewhere/x.ts:1:1"],
    undefined,
  ],
  ["a stack without frames", [], undefined],
];

for (const [title, places, plugin] of cases) {
  it(`the plugin of a stack: ${title}`, () => {
    const core = "/app/node_modules/sluice-gateway/src/pipeline/load/plugin-of-stack.ts";
    assert.equal(pluginOfStack(stack(...places), modules, core), plugin);
  });
}
