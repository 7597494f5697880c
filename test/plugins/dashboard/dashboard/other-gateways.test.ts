import assert from "node:assert/strict";
import { test } from "node:test";
import { askAllGateways } from "../../../../plugins/dashboard/dashboard/other-gateways.ts";
import type { Replicas } from "../../../../src/plugin.ts";
import { keptLog } from "../../../test-log.ts";

const { log, lines } = keptLog();

const own = (n: number): number => n + 1;
const ours = { name: "one", version: "1", isOwn: true, value: 2, heardMsAgo: 0 };

test("without a database there is only this gateway", async () => {
  const parts = { replicas: undefined, name: undefined, version: "1", log };
  using all = askAllGateways(parts, "topic", own);
  const { parts: found, isComplete } = await all.ask(1);
  assert.deepEqual([found, isComplete], [[{ ...ours, name: undefined }], true]);
});

test("if the other gateways cannot be asked, the part of this one is still returned", async () => {
  const replicas: Replicas = {
    id: "1",
    mark() {},
    send() {},
    receive: () => ({ [Symbol.dispose]() {} }),
    ask: () => Promise.reject(new Error("away")),
  };
  using all = askAllGateways({ replicas, name: "one", version: "1", log }, "topic", own);
  const { parts, isComplete } = await all.ask(1);
  assert.deepEqual([parts, isComplete], [[ours], false]);
  assert.deepEqual(lines, ["warn dashboard: the other gateways cannot be asked"]);
});
